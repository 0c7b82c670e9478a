/**
 * A headless Chromium that a test drives over the DevTools protocol: messages of JSON with a zero byte behind each, on
 * file descriptors 3 and 4, so that nothing listens on a port.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { test as plainTest, type TestContext } from 'node:test';
import { temporaryDirectory } from './temporary.js';

const PROGRAM = '/usr/bin/chromium';
const OPTIONS = [
  '--headless',
  // A container gives it no namespaces of its own.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--disable-extensions',
  '--disable-background-networking',
  '--hide-scrollbars',
  '--remote-debugging-pipe',
];

export const hasBrowser = existsSync(PROGRAM);

/** A test that is skipped where there is no browser. */
export function test(title: string, run: (context: TestContext) => Promise<void>): void {
  const skip = hasBrowser ? false : `${PROGRAM} is not installed: install the package chromium`;
  plainTest(title, { skip }, run);
}

type Answer = Record<string, unknown>;

/** An answer, which has an id, or an event, which has none. */
interface ProtocolMessage {
  id?: number;
  method?: string;
  params?: Answer;
  result?: Answer;
  error?: { message: string };
}

export class Browser {
  /** Each answer is an event with the name of its id. */
  readonly #answers = new EventEmitter();
  readonly #events: { method: string; params: Answer }[] = [];
  #lastId = 0;
  #buffered = '';
  #session: string | undefined;

  private constructor(private readonly child: ChildProcess) {
    const [, , , , output] = child.stdio as unknown as Readable[];
    output?.setEncoding('utf8').on('data', (text: string) => this.#receive(text));
    // Nobody waits any more.
    this.#answers.on('error', () => undefined);
    child.once('exit', (code) => {
      this.#answers.emit('error', new Error(`chromium ended: ${code}`));
    });
  }

  /** With one empty page of that size. */
  static async start(width: number, height: number): Promise<Browser> {
    const size = `--window-size=${width},${height}`;
    const profile = `--user-data-dir=${temporaryDirectory()}`;
    const child = spawn(PROGRAM, [...OPTIONS, size, profile, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
      // A process group of its own, so that close() ends the processes that it starts too.
      detached: true,
    });
    const browser = new Browser(child);
    try {
      await browser.#attach();
    } catch (error) {
      await browser.close();
      throw error;
    }
    return browser;
  }

  /** To the page that it starts with. */
  async #attach(): Promise<void> {
    const { targetInfos } = (await this.send('Target.getTargets')) as {
      targetInfos: { targetId: string; type: string }[];
    };
    const page = targetInfos.find(({ type }) => type === 'page');
    if (page === undefined) throw new Error('chromium has started without a page');
    const { targetId } = page;
    const attached = await this.send('Target.attachToTarget', { targetId, flatten: true });
    this.#session = String(attached['sessionId']);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.send(`${domain}.enable`);
  }

  async send(method: string, params: object = {}): Promise<Answer> {
    this.#lastId += 1;
    const id = this.#lastId;
    const [, , , input] = this.child.stdio as unknown as Writable[];
    const answered = once(this.#answers, `${id}`);
    input?.write(`${JSON.stringify({ id, method, params, sessionId: this.#session })}\0`);
    const [{ result = {}, error }] = (await answered) as [ProtocolMessage];
    if (error !== undefined) throw new Error(error.message);
    return result;
  }

  /** Loads a page and waits until it is drawn. */
  async open(url: string): Promise<void> {
    await this.send('Page.navigate', { url });
    await this.evaluate(
      `new Promise((done) => {
        const drawn = () => requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
        if (document.readyState === 'complete') drawn(); else addEventListener('load', drawn);
      })`,
    );
  }

  /** The value of an expression, or of its promise, as plain data. */
  async evaluate<T>(expression: string): Promise<T> {
    const answer = await this.send('Runtime.evaluate', {
      ...{ expression, awaitPromise: true, returnByValue: true },
    });
    if (answer['exceptionDetails'] !== undefined) {
      throw new Error(`the page threw: ${JSON.stringify(answer['exceptionDetails'])}`);
    }
    return (answer['result'] as { value: T }).value;
  }

  /** Scripts that failed, errors and warnings of the console, requests to anything but the page. */
  get problems(): string[] {
    return this.#events.flatMap(({ method, params }) => {
      if (method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded')
        return [JSON.stringify(params)];
      if (method === 'Runtime.consoleAPICalled') return [JSON.stringify(params)];
      if (method !== 'Network.requestWillBeSent') return [];
      const { url = '' } = params['request'] as { url?: string };
      return /^(file|data|about):/.test(url) ? [] : [`a request to ${url}`];
    });
  }

  /** As PNG. */
  async screenshot(): Promise<Buffer> {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(String(data), 'base64');
  }

  async close(): Promise<void> {
    const { pid, exitCode, signalCode } = this.child;
    if (pid !== undefined && exitCode === null && signalCode === null) {
      const ended = once(this.child, 'exit');
      process.kill(-pid, 'SIGKILL');
      await ended;
    }
  }

  #receive(text: string): void {
    const parts = (this.#buffered + text).split('\0');
    this.#buffered = parts.pop() ?? '';
    for (const part of parts) {
      const message = JSON.parse(part) as ProtocolMessage;
      const { id, method, params = {} } = message;
      if (id !== undefined) this.#answers.emit(`${id}`, message);
      else if (method !== undefined) this.#events.push({ method, params });
    }
  }
}
