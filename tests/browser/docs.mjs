// Drives the docs page in a headless Chromium by the DevTools protocol, and prints what it saw.
// node docs.mjs CHROMIUM URL TOKEN FOLDER
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const [chromium, url, token, folder] = process.argv.slice(2);
const PATIENCE = 30_000;

async function until(attempt, what) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(50)) {
    const found = await attempt();
    if (found) return found;
  }
  throw new Error(`in vain: ${what}`);
}

class Page {
  #waiting = new Map();
  #count = 0;
  asked = [];
  complaints = [];

  static async open(port) {
    const listed = await fetch(`http://127.0.0.1:${port}/json/list`);
    const [tab] = (await listed.json()).filter(({ type }) => type === "page");
    const page = new Page();
    page.socket = new WebSocket(tab.webSocketDebuggerUrl);
    page.socket.onmessage = ({ data }) => page.#hear(JSON.parse(data));
    await new Promise((done) => (page.socket.onopen = done));
    for (const part of ["Page", "Runtime", "Log", "Network"]) await page.send(`${part}.enable`);
    return page;
  }

  #hear({ id, method, params, result, error }) {
    if (id) this.#waiting.get(id)(error ? Promise.reject(new Error(error.message)) : result);
    if (method === "Network.requestWillBeSent") this.asked.push(params.request.url);
    if (method === "Log.entryAdded") this.complaints.push(params.entry.text);
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.text);
  }

  send(method, params = {}) {
    const id = ++this.#count;
    this.socket.send(JSON.stringify({ id, method, params }));
    return new Promise((done) => this.#waiting.set(id, done));
  }

  async see(expression) {
    const { result } = await this.send("Runtime.evaluate", { expression, returnByValue: true });
    return result.value;
  }

  click(selector) {
    const at = `document.querySelector(${JSON.stringify(selector)})`;
    return until(() => this.see(`${at} && (${at}.click(), true)`), selector);
  }

  async type(selector, text) {
    const at = `document.querySelector(${JSON.stringify(selector)})`;
    await until(() => this.see(`${at} && (${at}.focus(), true)`), selector);
    await this.send("Input.insertText", { text });
  }

  // Try an operation with what the page proposes, and return the status and body it shows.
  async attempt(operation) {
    const at = `#operations-${operation}`;
    await this.click(`${at} .opblock-summary-control`);
    await until(() => this.see(`!!document.querySelector("${at} button.execute")`), operation);
    await sleep(1_000); // the page builds an operation anew when what it refers to is resolved
    await this.click(`${at} button.execute`);
    const shown = `${at} .live-responses-table`;
    const read = (what) => this.see(`document.querySelector("${shown} ${what}")?.innerText`);
    const status = await until(() => read("tbody .response-col_status"), operation).catch(
      async (lost) => {
        throw new Error(await this.see(`document.querySelector("${at}")?.innerText`), { cause: lost });
      },
    );
    const body = await read("tbody .response-col_description .highlight-code");
    await this.click(`${at} .btn-clear`);
    await this.click(`${at} .opblock-summary-control`);
    return { status: status.trim().slice(0, 3), body };
  }
}

const browser = spawn(
  chromium,
  ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
    `--user-data-dir=${folder}`, "about:blank"],
  { stdio: "ignore" },
);
try {
  const file = await until(() => readFile(`${folder}/DevToolsActivePort`).catch(() => null), "start");
  const page = await Page.open(String(file).split("\n")[0]);
  await page.send("Page.navigate", { url: `${url}/docs` });
  await until(() => page.see(`document.querySelectorAll(".opblock").length > 9`), "the operations");
  const refused = await page.attempt("Players-getMe");
  await page.click(".auth-wrapper .authorize");
  await page.type(".auth-container input", token);
  await page.click(".auth-btn-wrapper .authorize");
  await page.click(".auth-btn-wrapper .btn-done");
  const me = await page.attempt("Players-getMe");
  const made = await page.attempt("Games-createGame");
  const { asked, complaints } = page;
  const cookies = await page.see("document.cookie");
  console.log(JSON.stringify({ refused, me, made, asked, complaints, cookies }));
  page.send("Browser.close");
  await new Promise((done) => browser.once("exit", done));
} finally {
  browser.kill();
}
process.exit(0);
