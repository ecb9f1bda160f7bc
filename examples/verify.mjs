// An independent verifier of replay-1, written from docs/replay-1.md and docs/rulesets.md alone; see there.
//   node verify.mjs [--keys jwks.json] < replays.ndjson    needs Node 22 or later, and nothing else
// One document a line in, one verdict a line out: {"line", "verdict", "level"?, "detail"?, "signature"?}.
import { createHash, createHmac, createPublicKey, verify as checkSignature } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

// The rulesets, as the tables of docs/rulesets.md have them.
const ODD = "A3579JK", EVEN = "2468TQ", ALL = "A23456789TJQK";
const family = (name, ranks, base, waits) => ({ name, ranks, laidOut: base === "laid out", waits });
const [UPPER, LOWER, DEUCE] = [["upper", ALL], ["lower", ODD], ["deuce", EVEN]].map((one) => family(...one, "laid out"));
const PYSOL = [UPPER, family("lower", "A3579J", "laid out"), DEUCE, family("king", "K", "comes")];
const COME = [family("ace", ODD + EVEN, "comes"), family("deuce", EVEN + ODD, "comes")];
const LAID = COME.map((one) => ({ ...one, laidOut: true }));
const DAWN = [family("upper", ALL.slice(0, -1), "laid out"), LOWER, DEUCE, family("king", "K", "comes", "lower")];
const rules = (families, more) => ({ families, rows: [8, 8], columns: 0, redeals: 0, ...more });
const RULESETS = {
  "royal-rendezvous-1": rules([UPPER, LOWER, DEUCE], { blocked: true }),
  "royal-rendezvous-relaxed-1": rules([UPPER, LOWER, DEUCE]),
  "royal-rendezvous-open-1": rules([UPPER, LOWER, DEUCE], { playerFills: true }),
  "royal-rendezvous-solsuite-1": rules([{ ...UPPER, waits: "lower" }, LOWER, DEUCE]),
  "royal-rendezvous-till-dawn-1": rules(DAWN),
  "royal-rendezvous-pysol-1": rules(PYSOL, { turns: true, hops: true }),
  "royal-cotillion-1": rules(LAID, { columns: 4 }),
  "royal-cotillion-pysol-1": rules(COME, { columns: 4, turns: true, hops: true }),
  "odd-and-even-1": rules(COME, { rows: [4, 5], redeals: 1 }),
  "odd-and-even-pysol-1": rules(COME, { rows: [4, 5], redeals: 1, turns: true, hops: true }),
};
const check = (fine, level, detail) => { if (!fine) throw Object.assign(new Error(detail), { level }); };

// Structure: strict JSON, then members and their forms.
function readJson(text) {
  // JSON.parse keeps the last of doubled names and forgets how numbers were written: look first.
  const names = [];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"(?:\s*:)?|[{}]/g)) {
    if (token === "{") names.push(new Set());
    else if (token === "}") names.pop();
    else if (token.endsWith(":") && names.length) {
      const { size } = names.at(-1);
      if (names.at(-1).add(JSON.parse(token.slice(0, -1))).size === size) throw new SyntaxError("a name stands twice");
    }
  }
  return JSON.parse(text, (_, value, { source } = {}) =>
    typeof value === "number" && /[.eE]/.test(source) ? { number: source } : value);
}
const NAME = /^[a-z0-9](-?[a-z0-9]){0,63}$/, HEX = /^[0-9a-f]{64}$/, SEED = /^[!-~]{1,64}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const ENTRY = /^([a-z0-9]{1,16}(-[CDHS])?:[a-z0-9]{1,16}(-[CDHS])?|undo|resign|hint)$/;
const text = (pattern) => (value) => typeof value === "string" && pattern.test(value);
const integer = (low, high = Infinity) => (value) => Number.isSafeInteger(value) && value >= low && value <= high;
const list = (value) => Array.isArray(value) && value.length <= 2000;
const object = (required, optional = {}) => (value) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const members = { ...required, ...optional };
  return Object.keys(required).every((name) => Object.hasOwn(value, name)) &&
    Object.entries(value).every(([name, one]) => Object.hasOwn(members, name) && members[name](one));
};
const bySeed = object({ spec: text(NAME), seed: text(SEED) });
const byCommitment = object({ spec: text(NAME), commitment: text(HEX) });
const [round, deal_no, attempt, deadline] = [1, 1, 1, 0].map((low) => integer(low));
const tournament = object({ id: text(UUID), round, deal_no, entry: text(UUID), attempt, deadline });
const isDocument = object({
  format: (value) => value === "replay-1",
  header: object({ id: text(UUID), ruleset: text(NAME), deal: (value) => bySeed(value) || byCommitment(value),
    player: text(UUID), created_at: integer(0), options: object({}) }, { tournament }),
  log: list,
  times: (value) => list(value) && value.every((ms, n) => integer(n ? value[n - 1] : 0)(ms)),
  result: object({ status: text(/^(playing|won|lost|resigned|timed-out)$/), score: integer(0, 104),
    ply: integer(0, 2000), undos: integer(0, 2000), hints: integer(0, 2000),
    position: text(/^[-+\/ A-Z0-9]{1,1000}$/) }, { ended_at: integer(0) }),
  digest: text(HEX),
}, { seed: text(SEED), signature: text(/^[-_A-Za-z0-9.]{1,4096}$/), extra: () => true });
function checkStructure(value) {
  const claimed = value?.format;
  if (typeof claimed === "string" && claimed !== "replay-1" && NAME.test(claimed)) return `format ${claimed}`;
  check(isDocument(value), "structure", "the members are not those of replay-1, each in its form");
  const { header, log, times, result } = value, { deal } = header, limit = header.tournament?.deadline;
  const fits = limit === undefined ? result.status !== "timed-out" : limit >= header.created_at && !("seed" in deal);
  check(fits, "structure", "not as a game within a tournament, or without, can be");
  check(!("seed" in value && "seed" in deal), "structure", "the seed stands twice");
  check(times.length === log.length, "structure", "not as many instants as entries");
  if (!Object.hasOwn(RULESETS, header.ruleset)) return `ruleset ${header.ruleset}`;
  if (!["deal-1", "pysol-1"].includes(deal.spec)) return `deal spec ${deal.spec}`;
  check(log.every(text(ENTRY)), "structure", "not the text of a log entry");
}

// Deals.
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256"));
const swap = (cards, i, j) => { [cards[i], cards[j]] = [cards[j], cards[i]]; };
// A card of a pack is its pack's number, rank and suit.
const packs = (suits) => [..."01"].flatMap((pack) => [...suits].flatMap((suit) =>
  [...ALL].map((rank) => pack + rank + suit)));
const bases = (families) => families.filter((one) => one.laidOut).flatMap(({ ranks: [base] }, n, laid) =>
  [..."CDHS"].map((suit) => laid.slice(0, n).filter((one) => one.ranks[0] === base).length + base + suit));
function deal1(seed, left) {
  const cards = packs("CDHS").filter(left), words = [];
  const key = sha256("royal-rendezvous/deal/1\0", seed).digest();
  for (let i = cards.length - 1, block = 0; i > 0; ) {
    if (!words.length) {
      const bytes = createHmac("sha256", key).update(Buffer.from([0, 0, 0, 0, 0, 0, block >> 8, block++ & 255])).digest();
      for (let at = 0; at < 32; at += 4) words.push(bytes.readUInt32BE(at));
    }
    const word = words.shift();
    if (word < 2 ** 32 - (2 ** 32 % (i + 1))) swap(cards, i, word % (i + 1)), i--;
  }
  return cards;
}
function pysol1(seed, left) {
  const [, ms, digits] = /^(ms)?(0|[1-9][0-9]*)$/.exec(seed) ?? [, "ms", 0], number = BigInt(digits);
  check(!ms || (number >= 1n && number < 1n << 33n), "deal", "not a seed of pysol-1");
  const cards = packs("CSHD"), index = (ms || number < 32000n ? congruential : twister)(number);
  for (let n = 103; n > 0; n--) swap(cards, n, index(n));
  return cards.reverse().filter(left);
}
function congruential(number, state = number) {
  return (n) => {
    state = (state * 214013n + 2531011n) & 0xffffffffn;
    const output = Number(state >> 16n), low = output & 0x7fff;
    return (number >> 32n ? output + 1 : number >> 31n ? low | 0x8000 : low) % (n + 1);
  };
}
function twister(number) {
  const key = [], mt = [19650218];
  for (let rest = number; rest > 0n; rest >>= 32n) key.push(Number(rest & 0xffffffffn));
  const mixed = (i, factor) => Math.imul(mt[i - 1] ^ (mt[i - 1] >>> 30), factor);
  for (let i = 1; i < 624; i++) mt[i] = (mixed(i, 1812433253) + i) >>> 0;
  let i = 1, at = 624;
  const put = (word) => { mt[i] = word >>> 0; if (++i === 624) [mt[0], i] = [mt[623], 1]; };
  for (let k = 0; k < 624; k++) put((mt[i] ^ mixed(i, 1664525)) + key[k % key.length] + (k % key.length));
  for (let k = 1; k < 624; k++) put((mt[i] ^ mixed(i, 1566083941)) - i);
  mt[0] = 0x80000000;
  const next = () => {
    for (let k = 0; at % 624 === 0 && k < 624; k++) {
      const y = (mt[k] & 0x80000000) | (mt[(k + 1) % 624] & 0x7fffffff);
      mt[k] = (mt[(k + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0)) >>> 0;
    }
    let y = mt[at++ % 624];
    y ^= y >>> 11, y ^= (y << 7) & 0x9d2c5680, y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  };
  return (n) => Math.floor(((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53 * (n + 1));
}

// Rules.
class Position {
  constructor(rules, cards) {
    Object.assign(this, { rules, piles: {}, redeals: rules.redeals });
    for (const { name, ranks, laidOut, waits } of rules.families)
      for (const suit of "CDHS") this.piles[`${name}-${suit}`] = { ranks, suit, waits, cards: laidOut ? 1 : 0 };
    const next = () => cards.shift();
    this.reserve = Array.from({ length: rules.rows[0] + rules.rows[1] }, next);
    this.columns = Array.from({ length: rules.columns }, () => []);
    for (let pass = 0; pass < 3; pass++) for (const column of this.columns) column.push(next());
    this.waste = rules.turns ? [next()] : [];
    this.stock = cards;
  }
  get score() { return Object.values(this.piles).reduce((sum, pile) => sum + pile.cards, 0); }
  wants({ ranks, suit, waits, cards }) {
    if (cards === ranks.length) return null;
    const held = waits && cards === ranks.length - 1 && this.piles[`${waits}-${suit}`];
    return held && held.cards < held.ranks.length ? null : ranks[cards] + suit;
  }
  top(place) {
    if (place === "waste") return this.waste.at(-1);
    if (/^r[1-9][0-9]?$/.test(place)) return this.reserve[place.slice(1) - 1] || undefined;
    if (/^c[1-4]$/.test(place)) return this.columns[place.slice(1) - 1]?.at(-1);
    const pile = this.rules.hops && Object.hasOwn(this.piles, place) && this.piles[place];
    return pile && pile.cards ? pile.ranks[pile.cards - 1] + pile.suit : undefined;
  }
  fits(card) { return card !== undefined && Object.values(this.piles).some((pile) => this.wants(pile) === card); }
  legal(from, to) {
    const { rules, stock, waste, reserve, piles } = this;
    if (from === "stock" && to === "waste")
      return stock.length > 0 && !(rules.blocked && reserve.some((card) => card && this.fits(card)));
    if (from === "waste" && to === "stock") return !stock.length && waste.length > 0 && this.redeals > 0;
    if (to[0] === "r" && reserve[to.slice(1) - 1] === null)
      return !!rules.playerFills && from === (waste.length ? "waste" : "stock") && waste.length + stock.length > 0;
    const card = this.top(from);
    return card !== undefined && Object.hasOwn(piles, to) && this.wants(piles[to]) === card;
  }
  get stuck() {
    const places = this.reserve.map((_, n) => `r${n + 1}`), columns = this.columns.map((_, n) => `c${n + 1}`);
    return !(["waste", ...places].some((place) => this.legal("stock", place) || this.legal("waste", place)) ||
      this.legal("waste", "stock") ||
      ["waste", ...places, ...columns, ...Object.keys(this.piles)].some((place) => this.fits(this.top(place))));
  }
  move(from, to) {
    const { rules, stock, waste, reserve, columns, piles } = this;
    if (to === "waste") waste.push(stock.shift());
    else if (to === "stock") this.stock = waste.splice(0), this.redeals--;
    else if (!Object.hasOwn(piles, to)) reserve[to.slice(1) - 1] = from === "waste" ? waste.pop() : stock.shift();
    else {
      piles[to].cards++;
      if (from === "waste") waste.pop();
      else if (from[0] === "c") columns[from.slice(1) - 1].pop();
      else if (Object.hasOwn(piles, from)) piles[from].cards--;
      else reserve[from.slice(1) - 1] = (rules.playerFills ? null : waste.pop() ?? stock.shift()) ?? null;
    }
    if (rules.turns && !this.waste.length && this.stock.length) this.waste.push(this.stock.shift());
  }
  render() {
    const { rules, piles, reserve, columns, waste, stock } = this, [first] = rules.rows;
    const tops = Object.values(piles).map(({ ranks, cards }) => (cards ? ranks[cards - 1] : "-")).join("");
    const foundations = tops.match(/..../g);
    const rows = [reserve.slice(0, first), reserve.slice(first)].map((row) => row.map((card) => card ?? "--").join(""));
    const stacks = columns.map((column) => column.join("") || "--").join("/") || "-";
    const left = stock.length + (rules.redeals ? `+${this.redeals}` : "");
    return [foundations.join("/"), rows.join("/"), stacks, waste.join("") || "-", left].join(" ");
  }
}
function play(start, log, mayUndo) {
  let position = start(), status = position.stuck ? "lost" : "playing", undos = 0, hints = 0;
  const moves = [];
  log.forEach((entry, ply) => {
    const need = (fine, why) => check(fine, "rules", `entry ${ply}, ${entry}: ${why}`);
    need(entry !== "undo" || mayUndo, "nothing can be taken back");
    need(status === "playing" || (entry === "undo" && status === "lost"), `the game is ${status}`);
    need(ply < 1999 || entry === "resign", "the log is full");
    if (entry === "resign") status = "resigned";
    else if (entry === "hint") hints++;
    else if (entry === "undo") {
      need(moves.pop(), "there is no move to take back");
      position = start();
      for (const move of moves) position.move(...move);
      [status, undos] = ["playing", undos + 1];
    } else {
      const move = entry.split(":");
      need(position.legal(...move), "not legal");
      position.move(...move);
      moves.push(move);
      status = position.score === 104 ? "won" : position.stuck ? "lost" : "playing";
    }
  });
  return { status, score: position.score, ply: log.length, undos, hints, position: position.render() };
}

// A whole document.
function canonical(value) {
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}
function judgeGame(value) {
  const { header, log, times, result } = value, { ruleset, deal, created_at } = header;
  const deadline = header.tournament?.deadline, seed = deal.seed ?? value.seed;
  if (seed === undefined) return false;
  if (deal.commitment) {
    const context = header.tournament ? `${header.tournament.id}/${header.tournament.deal_no}` : header.id;
    const made = sha256("royal-rendezvous/commit/1\0", context, "\0", seed).digest("hex");
    check(made === deal.commitment, "deal", "the seed does not open the commitment");
  }
  const rules = RULESETS[ruleset], out = bases(rules.families), left = (card) => !out.includes(card);
  const cards = (deal.spec === "deal-1" ? deal1 : pysol1)(seed, left).map((card) => card.slice(1));
  const facts = play(() => new Position(rules, [...cards]), log, deal.seed !== undefined);
  const last = created_at + (times.at(-1) ?? 0);
  check(deadline === undefined || !times.length || last <= deadline, "outcome", "an entry after the deadline");
  if (facts.status !== "playing") facts.ended_at = last;
  else if (result.status === "timed-out") Object.assign(facts, { status: "timed-out", ended_at: deadline });
  check(canonical(facts) === canonical(result), "outcome", `the log gives ${canonical(facts)}`);
  return true;
}
function judgeSignature({ format, header, digest, result, signature }, keys) {
  if (signature === undefined || !keys) return signature ? "no keys were given" : "not signed";
  const parts = signature.split("."), [head, payload, proof] = parts.map((part) => Buffer.from(part, "base64url"));
  const need = (fine, detail) => check(fine, "signature", detail);
  const whole = [head, payload, proof].every((part, n) => part?.toString("base64url") === parts[n]);
  need(parts.length === 3 && whole, "not three parts in base64url");
  let named;
  try { named = readJson(head.toString()); } catch { /* refused below */ }
  need(object({ alg: text(/^Ed25519$/), kid: text(/^/) })(named), "its header is not one of alg and kid alone");
  if (!keys.has(named.kid)) return "signed by none of the keys given";
  need(checkSignature(null, parts.slice(0, 2).join("."), keys.get(named.kid), proof), "the key did not make it");
  const facts = canonical({ format, id: header.id, ply: result.ply, digest, result });
  need(payload.toString() === facts, "it signs other facts");
  return "good";
}
export function verify(line, keys) {
  try {
    const value = readJson(line), unknown = checkStructure(value);
    if (unknown) return { verdict: "unsupported", detail: unknown };
    const open = judgeGame(value), lines = value.log.map((entry, n) => `\n${entry}@${value.times[n]}`);
    const digest = sha256("royal-rendezvous/log/1\0", canonical(value.header), ...lines).digest("hex");
    check(digest === value.digest, "digest", "not that of this header, log and times");
    const signature = judgeSignature(value, keys);
    return { verdict: open && value.result.status !== "playing" ? "valid" : "incomplete", signature };
  } catch (error) {
    if (!error.level && !(error instanceof SyntaxError)) throw error;
    return { verdict: "invalid", level: error.level ?? "structure", detail: error.message };
  }
}
if (process.argv[1] === import.meta.filename) {
  const file = process.argv[2] === "--keys" && readFileSync(process.argv[3], "utf8");
  const keys = file && new Map(JSON.parse(file).keys.map((key) => [key.kid, createPublicKey({ key, format: "jwk" })]));
  let line = 0;
  for await (const found of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    if (++line && /^\{"end": ?true,/.test(found)) console.log(found);
    else if (found.trim()) console.log(JSON.stringify({ line, ...verify(found, keys) }));
  }
}
