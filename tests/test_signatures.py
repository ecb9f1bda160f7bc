"""Signed results: who signs, what is signed, and what no forger gets past.

``golden/signed.ndjson`` holds documents that must stay valid for ever; ``golden/signing-keys.json``
the keys of the tests, of which the second is retired and signed the first document.
"""

import hashlib
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from typing import Any

import pytest
from click.testing import CliRunner, Result
from client import Client, Person, expect
from documents import SIGNING_KEYS, first_moves, header, hidden_header, played
from joserfc import jws
from joserfc.jwk import OctKey, OKPKey
from server import RENDEZVOUS, Service, new_database, rendezvous, running, serve

from service import signatures
from service.cli import main
from service.engine import verify, verify_text
from service.engine.replay import canonical, signed_facts
from service.signatures import Checker, KeysError, SigningKeys
from service.store.embedded import EmbeddedPostgres

Json = dict[str, Any]

SIGNED = SIGNING_KEYS.with_name("signed.ndjson")
KEYS = SigningKeys.load(SIGNING_KEYS)
STRANGER = SigningKeys({"keys": [signatures._new_key()]})


def resigned(**members: Any) -> Json:
    return {**played(header(), ["r4:upper-S", "resign"]), **members}


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


def made(document: Json, head: Json, keys: SigningKeys = KEYS, facts: bytes | None = None) -> str:
    """Return a signature made by a key under any header at all."""
    signed = f"{part(head)}.{part(signed_facts(document) if facts is None else facts)}"
    proof = keys._key.private_key
    assert proof is not None
    return f"{signed}.{part(proof.sign(signed.encode()))}"  # type: ignore[union-attr]


def head(keys: SigningKeys = KEYS, **members: Any) -> Json:
    return {"alg": "Ed25519", "kid": keys._header["kid"], **members}


class TestSigning:
    @pytest.mark.parametrize("line", SIGNED.read_bytes().splitlines()[:-1])
    def test_documents_once_signed_stay_good(self, line: bytes) -> None:
        verdict = verify_text(line, Checker(signatures.load(SIGNING_KEYS), required=True))

        assert verdict.verdict == "valid"
        assert verdict.levels["signature"] == ("pass", "")

    def test_a_signature_follows_from_document_and_key(self) -> None:
        documents = [json.loads(line) for line in SIGNED.read_bytes().splitlines()[1:-1]]

        for document in documents:
            bare = {name: value for name, value in document.items() if name != "signature"}
            assert KEYS.signed(bare) == document
            assert KEYS.signed(document) == document

    def test_it_is_a_jws_over_what_the_document_comes_to(self) -> None:
        document = KEYS.signed(resigned())

        named, facts, _ = document["signature"].split(".")
        assert urlsafe_b64decode(named + "==") == canonical(head())
        assert json.loads(urlsafe_b64decode(facts + "==")) == {
            "format": "replay-1",
            "id": document["header"]["id"],
            "ply": 2,
            "digest": document["digest"],
            "result": document["result"],
        }
        key = OKPKey.import_key(KEYS.published["keys"][0])
        assert jws.deserialize_compact(document["signature"], key, ["Ed25519"])

    def test_a_game_that_is_played_is_not_signed(self) -> None:
        document = played(header(), ["r4:upper-S"])

        assert KEYS.signed(document) is document
        verdict = verify(document, Checker(KEYS.published, required=True))
        assert verdict.verdict == "incomplete"
        assert verdict.levels["signature"] == ("skipped", "not signed")


class TestChecking:
    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (lambda good: good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "did not make it"),
            (lambda good: good + "A", "did not make it"),
            (lambda good: good.rpartition(".")[0], "three parts"),
            (lambda good: good.rpartition(".")[0] + ".", "did not make it"),
            (lambda good: "." + good, "three parts"),
            (lambda good: "é" + good, ""),
            (lambda good: f"{good}.", "three parts"),
        ],
    )
    def test_a_changed_signature_is_bad(self, change: Any, told: str) -> None:
        document = KEYS.signed(resigned())
        document["signature"] = change(document["signature"])

        verdict = verify(document, KEYS.check)

        assert verdict.verdict == "invalid"
        assert verdict.problem is not None
        if told:
            assert verdict.problem.code == "bad-signature"
            assert told in verdict.problem.detail
            assert verdict.levels["signature"] == ("fail", "")

    def test_of_the_ways_to_write_the_same_bytes_one_is_taken(self) -> None:
        good = KEYS.signed(resigned())["signature"]
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        last = letters.index(good[-1])
        assert last % 16 == 0
        same = good[:-1] + letters[last + 1]
        proofs = [urlsafe_b64decode(one.rpartition(".")[2] + "==") for one in (good, same)]

        verdict = verify(resigned(signature=same), KEYS.check)

        assert proofs[0] == proofs[1]
        assert verdict.levels["signature"] == ("fail", "")

    @pytest.mark.parametrize(
        "head_",
        [
            head(alg="none"),
            head(alg="HS256"),
            head(alg="EdDSA"),
            head(alg="ES256"),
            head(alg=None),
            head(alg=["Ed25519"]),
            {"kid": head()["kid"]},
            {"alg": "Ed25519"},
            head(kid=5),
            head(kid=None),
            head(kid=[head()["kid"]]),
            head(crit=["b64"], b64=False),
            head(jwk=STRANGER.published["keys"][0]),
            [],
            "Ed25519",
            b'{"alg":"Ed25519","alg":"none","kid":"x"}',
            b"\xff",
            b"[" * 900,
        ],
    )
    def test_any_other_header_is_refused_though_the_key_signed_it(self, head_: Any) -> None:
        document = resigned()
        document["signature"] = made(document, head_)

        verdict = verify(document, KEYS.check)

        assert verdict.verdict == "invalid"
        assert verdict.problem is not None
        assert (verdict.problem.level, verdict.problem.code) == ("signature", "bad-signature")
        assert verdict.problem.pointer == "/signature"

    @pytest.mark.parametrize("alg", ["none", "HS256"])
    def test_the_public_key_is_no_secret_to_sign_with(self, alg: str) -> None:
        document = resigned()
        signed = f"{part(head(alg=alg))}.{part(signed_facts(document))}"
        public = urlsafe_b64decode(KEYS.published["keys"][0]["x"] + "==")
        if alg == "none":
            document["signature"] = f"{signed}."
        else:
            document["signature"] = jws.serialize_compact(
                head(alg=alg), signed_facts(document), OctKey.import_key(public), [alg]
            )

        assert verify(document, KEYS.check).levels["signature"] == ("fail", "")

    def test_the_facts_signed_must_be_those_of_the_document(self) -> None:
        document = KEYS.signed(resigned())
        other = resigned(signature=document["signature"])
        other["header"] = {**other["header"], "player": other["header"]["id"]}
        other["digest"] = played(other["header"], other["log"])["digest"]

        verdict = verify(other, KEYS.check)

        assert verdict.levels["digest"] == ("pass", "")
        assert verdict.levels["signature"] == ("fail", "")
        assert verdict.verdict == "invalid"

    def test_facts_written_another_way_are_not_these_facts(self) -> None:
        document = resigned()
        loose = json.dumps(json.loads(signed_facts(document))).encode()
        document["signature"] = made(document, head(), facts=loose)

        assert verify(document, KEYS.check).levels["signature"] == ("fail", "")

    def test_what_strangers_signed_is_left_open_unless_it_must_be_ours(self) -> None:
        document = STRANGER.signed(resigned())

        lenient = verify(document, KEYS.check)
        strict = verify(document, Checker(KEYS.published, required=True))
        unsigned = verify(resigned(), Checker(KEYS.published, required=True))

        assert lenient.verdict == "valid"
        assert lenient.levels["signature"] == ("skipped", "signed by none of the keys given")
        assert strict.problem is not None
        assert strict.problem.code == "unknown-key"
        assert unsigned.problem is not None
        assert unsigned.problem.code == "not-signed"
        assert verify(resigned(), KEYS.check).verdict == "valid"

    def test_a_claimed_key_must_have_signed(self) -> None:
        document = resigned()
        document["signature"] = made(document, head(), STRANGER)

        assert verify(document, KEYS.check).levels["signature"] == ("fail", "")

    def test_a_hidden_deal_that_is_not_revealed_may_be_signed(self) -> None:
        deal = hidden_header()
        document = played(deal, [*first_moves(deal, 3), "resign"], revealed=False)

        verdict = verify(KEYS.signed(document), KEYS.check)

        assert verdict.verdict == "incomplete"
        assert verdict.levels["signature"] == ("pass", "")

    def test_a_checker_can_be_sent_to_another_process(self) -> None:
        sent = pickle.loads(pickle.dumps(Checker(KEYS.published, required=True)))  # noqa: S301

        assert verify(KEYS.signed(resigned()), sent).levels["signature"] == ("pass", "")
        assert sent.required


class TestKeys:
    def test_a_key_is_named_by_its_thumbprint_whatever_the_file_says(self) -> None:
        key = {**signatures._new_key(), "kid": "mine", "use": "enc"}
        published = SigningKeys({"keys": [key]}).published["keys"][0]

        text = f'{{"crv":"Ed25519","kty":"OKP","x":"{key["x"]}"}}'
        assert published["kid"] == part(hashlib.sha256(text.encode()).digest())
        assert set(published) == {"kty", "crv", "x", "kid", "alg", "use"}
        assert (published["alg"], published["use"]) == ("Ed25519", "sig")

    def test_a_retired_key_needs_no_private_part_but_the_first_one_does(self) -> None:
        new, old = signatures._new_key(), signatures._new_key()
        del old["d"]

        assert len(SigningKeys({"keys": [new, old]}).published["keys"]) == 2
        with pytest.raises(KeysError, match="has no private part"):
            SigningKeys({"keys": [old, new]})

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"kty": "RSA"}, "not of Ed25519"),
            ({"crv": "X25519"}, "not of Ed25519"),
            ({"d": "AAAA"}, "damaged"),
            ({"d": 5}, "damaged"),
            ({"x": "AAAA"}, "damaged"),
            ({"x": None}, "damaged"),
            ({"x": signatures._new_key()["x"]}, "damaged"),
            ({"x": "é"}, "damaged"),
        ],
    )
    def test_a_damaged_key_is_refused_and_not_told(self, change: Json, told: str) -> None:
        key = {**signatures._new_key(), **change}

        with pytest.raises(KeysError, match=f"key 1 of the JWK set is {told}") as caught:
            SigningKeys({"keys": [signatures._new_key(), key]})

        assert str(key["d"]) not in str(caught.value)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"keys": []}', '{"keys": {}}', "5", "{}"])
    def test_a_file_that_holds_none_is_refused(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "keys.json"
        file.write_text(text)

        with pytest.raises(KeysError):
            SigningKeys.load(file)

    def test_a_key_is_made_once_and_for_its_owner_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "keys.json"

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(signatures.make, [file] * 8))

        assert made.count(True) == 1
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]
        first = SigningKeys.load(file).published
        assert not signatures.make(file)
        assert SigningKeys.load(file).published == first

    def test_rotation_puts_a_new_key_first_and_keeps_the_old_ones(self, tmp_path: Path) -> None:
        file = tmp_path / "keys.json"
        signatures.make(file)
        before = SigningKeys.load(file)
        document = before.signed(resigned())

        signatures.rotate(file)

        after = SigningKeys.load(file)
        assert after.published["keys"][1:] == before.published["keys"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert after.signed(resigned())["signature"] != document["signature"]
        assert verify(document, after.check).levels["signature"] == ("pass", "")

    def test_where_nothing_can_be_written_it_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(KeysError, match="cannot be written"):
            signatures.make(tmp_path / "nowhere" / "keys.json")
        with pytest.raises(KeysError, match="no keys at"):
            signatures.rotate(tmp_path / "keys.json")
        with pytest.raises(KeysError, match="cannot be read"):
            SigningKeys.load(tmp_path)


class TestService:
    def test_the_replay_of_a_game_that_has_ended_is_signed(self, ada: Person) -> None:
        game = ada.play(ada.create(seed=None), 1)
        playing = ada.replay(game)
        ended = expect(ada.act(game, "resign"))

        document = ada.replay(ended)

        assert "signature" not in playing
        keys = expect(ada.get("/.well-known/jwks.json"))
        verdict = verify(document, Checker(keys, required=True))
        assert verdict.verdict == "valid"
        assert verdict.levels["signature"] == ("pass", "")
        assert ada.replay(ended) == document

    def test_a_lost_game_that_is_gone_on_with_is_not_signed_until_it_ends(
        self, ada: Person
    ) -> None:
        lost = ada.play(ada.create("7", "royal-rendezvous-1"))
        assert lost["status"] == "lost"
        signed = ada.replay(lost)

        again = expect(ada.act(lost, "undo"))

        assert "signature" in signed
        assert "signature" not in ada.replay(again)

    def test_the_service_checks_its_own_signatures_old_ones_included(self, client: Client) -> None:
        for line in SIGNED.read_bytes().splitlines()[:-1]:
            verdict = expect(client.ask("POST", "/v1/replays/verify", data=line))
            assert verdict["levels"]["signature"] == {"state": "pass"}

    def test_it_finds_a_forged_one_and_leaves_those_of_others_open(self, client: Client) -> None:
        forged = resigned()
        forged["signature"] = made(forged, head(), STRANGER)

        bad = expect(client.post("/v1/replays/verify", forged))
        open_ = expect(client.post("/v1/replays/verify", STRANGER.signed(resigned())))

        assert bad["verdict"] == "invalid"
        assert bad["problem"]["code"] == "bad-signature"
        assert open_["verdict"] == "valid"
        assert open_["levels"]["signature"]["state"] == "skipped"

    def test_the_public_keys_can_be_had_by_anybody_and_kept(self, client: Client) -> None:
        answer = client.get("/.well-known/jwks.json")

        assert answer.mimetype == "application/jwk-set+json"
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert expect(answer) == KEYS.published
        assert "d" not in {name for key in answer.get_json(force=True)["keys"] for name in key}
        again = client.get("/.well-known/jwks.json", If_None_Match=answer.headers["ETag"])
        assert again.status_code == 304


def test_the_described_signature_is_good() -> None:
    page = (Path(__file__).parents[1] / "docs" / "replay-1.md").read_text("utf-8")
    blocks = dict(re.findall(r"^```(.*)\n((?:.*\n)*?)```$", page, re.MULTILINE))
    document = json.loads(blocks["json document"])
    signed = {**document, "signature": blocks["text signature"].strip()}

    keys = json.loads(blocks["json keys"])

    assert signed_facts(document).decode() == blocks["json facts"].strip()
    assert verify(signed, Checker(keys, required=True)).levels["signature"] == ("pass", "")
    assert KEYS.signed(document) == signed


def run(*arguments: str | Path, **environment: str) -> Result:
    clean = {"DATABASE_URL": None, "RENDEZVOUS_HOME": None, "SIGNING_KEYS": None, **environment}
    return CliRunner().invoke(main, list(map(str, arguments)), env=clean)


class TestCommands:
    @pytest.fixture
    def documents(self, tmp_path: Path) -> Path:
        rows = [*SIGNED.read_text().splitlines()[:-1], json.dumps(resigned())]
        rows.append(json.dumps(STRANGER.signed(resigned())))
        file = tmp_path / "games.ndjson"
        file.write_text("\n".join([*rows, json.dumps({"end": True, "count": len(rows)})]))
        return file

    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_verify_holds_replays_to_keys(self, documents: Path, tmp_path: Path, jobs: str) -> None:
        keys = tmp_path / "keys.json"
        keys.write_text(json.dumps(KEYS.published))

        done = run("verify", "--json", "--jobs", jobs, "--keys", keys, documents)

        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [row["levels"]["signature"]["state"] for row in rows[:-1]] == [
            *["pass"] * 3,
            *["fail"] * 2,
        ]
        assert [row["problem"]["code"] for row in rows[3:-1]] == ["not-signed", "unknown-key"]
        assert done.exit_code == 1
        assert run("verify", documents).exit_code == 0

    def test_a_file_without_keys_is_a_usage_error(self, documents: Path, tmp_path: Path) -> None:
        nothing = tmp_path / "keys.json"
        nothing.write_text("{}")

        done = run("verify", "--keys", nothing, documents)

        assert done.exit_code == 2
        assert "is not of Ed25519" in done.stderr

    def test_keys_are_made_rotated_and_shown(self, tmp_path: Path) -> None:
        where = {"RENDEZVOUS_HOME": str(tmp_path)}

        made = [run("keys", "make", **where) for _ in range(2)]
        rotated = run("keys", "rotate", **where)
        shown = run("keys", "show", **where)

        file = tmp_path / "signing-keys.json"
        assert [one.stdout for one in made] == [f"{file}: made\n", f"{file}: is there already\n"]
        assert rotated.exit_code == 0
        assert json.loads(shown.stdout) == SigningKeys.load(file).published
        private = [key["d"] for key in json.loads(file.read_text())["keys"]]
        assert len(private) == 2
        assert not any(secret in shown.stdout for secret in private)

    def test_with_another_database_the_file_must_be_named(self, tmp_path: Path) -> None:
        url = {"DATABASE_URL": "postgresql:///nowhere"}
        file = tmp_path / "keys.json"

        assert "SIGNING_KEYS" in run("keys", "make", **url).stderr
        assert run("keys", "make", SIGNING_KEYS=str(file), **url).exit_code == 0
        assert file.exists()


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(gettempdir()) / f"rendezvous-tests-{token_hex(4)}"
    yield path
    EmbeddedPostgres(path).stop()
    shutil.rmtree(path, ignore_errors=True)


def signature_of_a_game(service: Service) -> str:
    service.register()
    game = service.create()
    assert service.ask("POST", f"/v1/games/{game['id']}/resign", {"ply": 0}).status == 200
    return str(service.replay(game)["signature"])


class TestServing:
    def test_s_66_serve_refuses_a_database_of_others_without_keys(
        self, postgres: EmbeddedPostgres, tmp_path: Path
    ) -> None:
        """S-66: a key made by each process would make each doubt what the others signed."""
        with new_database(postgres) as url:
            assert rendezvous("migrate", DATABASE_URL=url).returncode == 0
            without = rendezvous("serve", DATABASE_URL=url, PORT="0")
            lost = rendezvous(
                "serve", DATABASE_URL=url, PORT="0", SIGNING_KEYS=str(tmp_path / "none.json")
            )

        assert (without.returncode, without.stdout) == (1, "")
        assert without.stderr.startswith("Error: results are signed")
        assert "set SIGNING_KEYS to a file; `rendezvous keys make` makes it" in without.stderr
        assert lost.returncode == 1
        assert "none.json: `rendezvous keys make` makes one" in lost.stderr

    def test_s_66_the_key_of_an_embedded_database_is_made_once_and_kept(self, home: Path) -> None:
        """S-66: all workers, and the service after a restart, sign with the same key."""
        published = []
        for _ in range(2):
            with serve(home, WORKERS="2") as running:
                service = running.announced()
                published.append(service.ask("GET", "/.well-known/jwks.json").body)
                signature = signature_of_a_game(service)
                running.end()
                assert str(running).count('"d"') == 0

        file = home / "signing-keys.json"
        assert published[0] == published[1] == SigningKeys.load(file).published
        assert signature.count(".") == 2
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.stat().st_uid == os.geteuid()
        assert not list((home / "postgres").rglob("*signing*"))

    def test_s_66_processes_that_share_the_keys_check_what_any_of_them_signed(
        self, postgres: EmbeddedPostgres, database: object, tmp_path: Path
    ) -> None:
        """S-66: after a rotation too, whichever of them has it already."""
        assert database
        file = tmp_path / "keys.json"
        signatures.make(file)
        with running(postgres.url, SIGNING_KEYS=str(file)) as old:
            old.register()
            game = old.create()
            old.ask("POST", f"/v1/games/{game['id']}/resign", {"ply": 0})
            before = old.replay(game)
            signatures.rotate(file)
            with running(postgres.url, SIGNING_KEYS=str(file)) as new:
                new.token = old.token
                after = new.replay(game)
                verdicts = [
                    new.ask("POST", "/v1/replays/verify", document).body
                    for document in (before, after)
                ]

        assert before["signature"] != after["signature"]
        assert [one["levels"]["signature"] for one in verdicts] == [{"state": "pass"}] * 2


def test_verify_says_what_to_install_for_keys(tmp_path: Path) -> None:
    blocked = tmp_path / "joserfc.py"
    blocked.write_text("raise ModuleNotFoundError(name='joserfc')")
    done = subprocess.run(
        [*RENDEZVOUS, "verify", "--keys", str(SIGNING_KEYS), str(SIGNED)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == (
        "Error: --keys needs joserfc: pip install 'royal-rendezvous[verify]' (no joserfc here)\n"
    )
