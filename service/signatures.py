"""Signed results: the keys of a service, what they sign, and who can check it.

A signature is a compact JWS, ``Ed25519`` alone, over what a replay document comes to. It follows
from the document and the key, so it is made when a document is given out and stored nowhere. The
keys stand in a file, a JWK set: the first one signs, the others are published with it, so that what
they signed can still be checked.
"""

import hmac
import json
import os
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from service.engine.replay import Json, signed_facts
from service.engine.verify import Problem, read

ALGORITHM: Final = "Ed25519"

_REGISTRY: Final = jws.JWSRegistry(algorithms=[ALGORITHM])
_MAKE: Final = "`rendezvous keys make` makes one"


class KeysError(RuntimeError):
    """Keys cannot be read or are none; the text says why and holds nothing of them."""


class Checker:
    """Says whether a document is signed by one of these keys: a ``SignatureCheck``.

    What it is made of may be sent to another process.
    """

    def __init__(self, keys: Json, *, required: bool = False) -> None:
        """Take the keys.

        Args:
            keys: A JWK set; of private keys only the public part is used.
            required: Whether a finished game that none of these keys signed is at fault. Else that
                is left open: anybody may have keys.

        Raises:
            KeysError: It is no set of such keys.
        """
        self.published = {"keys": [_published(key) for key in _keys(keys)]}
        self.required = required

    def __reduce__(self) -> tuple[Any, ...]:
        return _checker, (self.published, self.required)

    @cached_property
    def _by_id(self) -> dict[str, OKPKey]:
        return {key["kid"]: OKPKey.import_key(key) for key in self.published["keys"]}

    def __call__(self, signature: str | None, facts: bytes) -> Problem | str | None:
        """Return None if the signature is of these facts, else what is wrong or left open."""
        if signature is None:
            return self._open("not-signed", "not signed")
        try:
            header = _header(signature)
        except ValueError as error:
            return _bad(str(error))
        key = self._by_id.get(header["kid"])
        if key is None:
            return self._open("unknown-key", "signed by none of the keys given")
        try:
            found = jws.deserialize_compact(signature, key, registry=_REGISTRY)
        except JoseError:
            return _bad("the key that it names did not make it")
        return None if found.payload == facts else _bad("it signs other facts than these")

    def _open(self, code: str, reason: str) -> Problem | str:
        return Problem("signature", code, reason, "/signature") if self.required else reason


def _checker(published: Json, required: bool) -> Checker:  # noqa: FBT001 - pickle's positions
    return Checker(published, required=required)


def _bad(detail: str) -> Problem:
    return Problem("signature", "bad-signature", detail, "/signature")


def _header(signature: str) -> dict[str, str]:
    """Return a JWS's header, which names the algorithm and the key and nothing else.

    Raises:
        ValueError: It is another one, or there are two ways to write this signature.
    """
    parts = signature.split(".")
    if len(parts) != 3:  # noqa: PLR2004
        raise ValueError("it does not have three parts")
    header, _, proof = (_decoded(part) for part in parts)
    if [_encoded(header), _encoded(proof)] != [parts[0], parts[2]]:
        raise ValueError("it is not base64url as it is written")
    named = read(header)
    if type(named) is not dict or named.keys() != {"alg", "kid"}:
        raise ValueError("its header is not of alg and kid alone")
    if named["alg"] != ALGORITHM:
        raise ValueError(f"its algorithm is not {ALGORITHM}")
    if type(named["kid"]) is not str:
        raise ValueError("its kid is no text")
    return named


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class SigningKeys:
    """The keys of a service.

    Attributes:
        check: Checks signatures by them, and leaves open those of others.
    """

    def __init__(self, keys: Json) -> None:
        """Take keys, the first of which signs.

        Raises:
            KeysError: They are none, or the first is not a private one.
        """
        first = _keys(keys)[0]
        if not first.is_private:
            raise KeysError("the first key has no private part, so it cannot sign")
        self._key = first
        self._header = {"alg": ALGORITHM, "kid": first.thumbprint()}
        self.check = Checker(keys)

    @classmethod
    def load(cls, file: Path) -> Self:
        """Return the keys of a file.

        Raises:
            KeysError: There is no such file, or it holds no such keys.
        """
        return cls(load(file))

    @property
    def published(self) -> Json:
        """The public keys as a JWK set; the name of each is its thumbprint (RFC 7638)."""
        return self.check.published

    def secret(self, label: bytes) -> bytes:
        """Return a secret for something else than signing, the same wherever these keys are."""
        private = str(self._key.as_dict(private=True)["d"])
        return hmac.digest(private.encode(), label, "sha256")

    def signed(self, document: Json) -> Json:
        """Return a replay document with its signature if its game has ended, else as it is."""
        if document["result"]["status"] == "playing":
            return document
        return {**document, "signature": self.sign(signed_facts(document))}

    def sign(self, facts: bytes) -> str:
        """Return a compact JWS of facts."""
        return jws.serialize_compact(self._header, facts, self._key, registry=_REGISTRY)


def load(file: Path) -> Json:
    """Return the JWK set in a file.

    Raises:
        KeysError: It cannot be read or is no JSON object.
    """
    try:
        value = read(file.read_bytes())
    except FileNotFoundError:
        raise KeysError(f"there are no keys at {file}: {_MAKE}") from None
    except OSError as error:
        raise KeysError(f"the keys at {file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise KeysError(f"{file} holds no JWK set: it is not JSON") from None
    if type(value) is not dict:
        raise KeysError(f"{file} holds no JWK set")
    return value


def make(file: Path) -> bool:
    """Make a file with a new key, readable by its owner alone, unless it is there; whether it did.

    Raises:
        KeysError: It cannot be written.
    """
    return _write(file, {"keys": [_new_key()]}, anew=True)


def rotate(file: Path) -> None:
    """Put a new key first in a file; the others are published still, so what they signed stands.

    Raises:
        KeysError: There is no such file, it holds no such keys, or it cannot be written.
    """
    kept = load(file)
    SigningKeys(kept)
    _write(file, {**kept, "keys": [_new_key(), *kept["keys"]]}, anew=False)


def _write(file: Path, keys: Mapping[str, Any], *, anew: bool) -> bool:
    """Write a file whole or not at all, with mode 0600; return False if it must be new and is not.

    Two that make it at once end with one and the same key.
    """
    if anew and file.exists():
        return False
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
        stage = Path(name)
        try:
            with os.fdopen(handle, "w") as stream:
                stream.write(json.dumps(keys, indent=2) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            if not anew:
                stage.replace(file)
                return True
            try:
                os.link(stage, file)
            except FileExistsError:
                return False
        finally:
            stage.unlink(missing_ok=True)
    except OSError as error:
        raise KeysError(f"keys cannot be written to {file}: {error.strerror}") from None
    return True


def _new_key() -> Json:
    key = OKPKey.generate_key("Ed25519")
    return {**key.as_dict(private=True), "kid": key.thumbprint()}


def _keys(keys: Json) -> list[OKPKey]:
    rows = keys.get("keys", [keys])
    if type(rows) is not list or not rows:
        raise KeysError("the JWK set has no keys")
    return [_key(number, row) for number, row in enumerate(rows)]


def _key(number: int, row: Any) -> OKPKey:
    """Return a key, whatever else is told of it left out."""
    what = f"key {number} of the JWK set"
    if type(row) is not dict or (row.get("kty"), row.get("crv")) != ("OKP", "Ed25519"):
        raise KeysError(f"{what} is not of Ed25519 (kty OKP)")
    try:
        given = OKPKey.import_key(
            {name: row[name] for name in ("kty", "crv", "x", "d") if name in row}
        )
        # Read anew, since what is wrong with it shows late: the public part might be another's.
        key = OKPKey.import_key(given.private_key or given.public_key)
        if key.as_dict(private=False)["x"] != row.get("x"):
            raise ValueError("the parts do not belong together")  # noqa: TRY301
    except (JoseError, ValueError, TypeError):
        # Without its cause: the texts of others might tell what they read.
        raise KeysError(f"{what} is damaged") from None
    return key


def _published(key: OKPKey) -> Json:
    public = key.as_dict(private=False)
    named = {name: public[name] for name in ("kty", "crv", "x")}
    return {**named, "kid": key.thumbprint(), "alg": ALGORITHM, "use": "sig"}
