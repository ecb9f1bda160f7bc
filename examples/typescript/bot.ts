/**
 * A bot: plays a game by its legal moves, and verifies what was recorded.
 *
 *     npm ci && npm run generate
 *     RENDEZVOUS_URL=http://127.0.0.1:8000 RENDEZVOUS_TOKEN=... npm start
 *
 * Without a token it registers a player first, whose token it does not show. With one it goes on
 * with the game that it was at when it was stopped. Every request of a game may be sent again until
 * it is answered: a creation has its key, an act its ply. To register again makes another player,
 * no harm.
 */
import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.d.ts";

type Game = components["schemas"]["Game"];
type Command = components["schemas"]["Command"];
type Problem = components["schemas"]["Problem"];
type Replay = components["schemas"]["Replay"];
type Answer<T> = { data?: T; error?: Problem; response: Response };

const PATIENCE = 60_000; // ms for which a request is sent again before the bot gives up
const BUSY = [429, 503];
const RANKS = "A23456789TJQK";

const url = process.env["RENDEZVOUS_URL"] ?? "http://127.0.0.1:8000";
let token = process.env["RENDEZVOUS_TOKEN"];

const api = createClient<paths>({ baseUrl: url });
api.use({
  onRequest({ request }) {
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
  },
});

/** The service refuses a request. */
class Refused extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** Ask until there is an answer. What the service refuses is thrown as Refused. */
async function ask<T>(request: () => Promise<Answer<T>>): Promise<T> {
  const until = Date.now() + PATIENCE;
  for (let pause = 100; ; pause = Math.min(2 * pause, 5_000)) {
    let wait = pause;
    let lost: unknown;
    try {
      const { data, error, response } = await request();
      if (data !== undefined) return data;
      if (error && !BUSY.includes(response.status)) throw new Refused(error);
      wait = Math.max(pause, 1_000 * Number(response.headers.get("Retry-After") ?? 0));
      lost = error;
    } catch (problem) {
      if (problem instanceof Refused) throw problem;
      lost = problem; // Nobody knows whether it was done. Sent again it does no harm: see above.
    }
    if (Date.now() + wait > until) throw new Error("no answer", { cause: lost });
    await sleep(wait);
  }
}

/** The game in play if there is one, else a new one. */
async function findGame(): Promise<Game> {
  const query = { status: "playing", limit: 1 } as const;
  const list = await ask(() => api.GET("/v1/games", { params: { query } }));
  const playing = list.games[0];
  if (playing) {
    console.log("going on with", playing.id, "at ply", playing.ply);
    return ask(() => api.GET("/v1/games/{game_id}", { params: { path: { game_id: playing.id } } }));
  }
  const header = { "Idempotency-Key": randomUUID() };
  const game = await ask(() => api.POST("/v1/games", { params: { header }, body: {} }));
  console.log("playing", game.id);
  return game;
}

/** The move to make: the lowest card that can be built, a card from the stock at last. */
function choose(moves: Command[]): Command {
  const rank = ({ card }: Command) => (card ? RANKS.indexOf(card.charAt(0)) : 99);
  return moves.reduce((best, move) => (rank(move) < rank(best) ? move : best));
}

/** A game at its end. */
async function play(game: Game): Promise<Game> {
  const params = { path: { game_id: game.id } };
  while (game.status === "playing") {
    const body = { ply: game.ply, moves: [choose(game.legal_moves)] };
    try {
      game = await ask(() => api.POST("/v1/games/{game_id}/moves", { params, body }));
    } catch (refused) {
      // Somebody else has played with this token: go on from where the game is.
      if (!(refused instanceof Refused && refused.problem.game)) throw refused;
      game = refused.problem.game;
    }
    console.log("ply", game.ply, "score", game.score);
  }
  return game;
}

/** A value as RFC 8785 JSON, for what a header holds: objects, ASCII texts, integers. */
function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, of]) => `${JSON.stringify(name)}:${canonical(of)}`).join()}}`;
}

/** What a replay's digest must be: docs/replay-1.md tells how it is made. */
function digest({ header, log, times }: Replay): string {
  const lines = [canonical(header), ...log.map((text, index) => `${text}@${times[index]}`)];
  return createHash("sha256").update(`royal-rendezvous/log/1\0${lines.join("\n")}`).digest("hex");
}

if (!token) {
  token = (await ask(() => api.POST("/v1/players", { body: { name: "Bot" } }))).token;
}
const game = await play(await findGame());
const replay = await ask(() =>
  api.GET("/v1/games/{game_id}/replay", { params: { path: { game_id: game.id } } }),
);
const { verdict } = await ask(() => api.POST("/v1/replays/verify", { body: replay }));
console.log(game.id, game.status, "score", game.score, verdict);
const sound = verdict === "valid" && game.digest === replay.digest && replay.digest === digest(replay);
process.exitCode = sound ? 0 : 1;
