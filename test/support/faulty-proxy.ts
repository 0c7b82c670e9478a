/** A proxy of HTTP in front of a server: what a test says happens to a request, instead of the server's answer. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A status; the body of a request that ends early, as if the client had ended; a change of the answer's body; an answer that ends
 * early or does not come (0), as if the server had ended; what is awaited before the request and before each piece of the answer; or nothing.
 */
export type Fault =
  | { status: number }
  | { cutAt: number }
  | { change: (body: Buffer) => void }
  | { endsAt: number }
  | { wait: () => Promise<void> }
  | null;

const PIECE_BYTES = 1 << 18;

export class FaultyProxy {
  #fault: (method: string, path: string) => Fault = () => null;

  private constructor(
    private readonly server: Server,
    private readonly target: URL,
  ) {
    this.server.on(
      'request',
      // The client has ended, or the server: the other one loses its connection.
      (incoming: IncomingMessage, response: ServerResponse) =>
        void this.#pass(incoming, response).catch(() => response.destroy()),
    );
  }

  static async start(target: string): Promise<FaultyProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FaultyProxy(server, new URL(target));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  /** What happens to requests from now on. */
  faults(fault: (method: string, path: string) => Fault): void {
    this.#fault = fault;
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = incoming;
    const parts: Buffer[] = [];
    for await (const part of incoming) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const fault = this.#fault(method, decodeURIComponent(url));
    if (fault !== null && 'status' in fault) {
      response.writeHead(fault.status).end();
      return;
    }
    if (fault !== null && 'endsAt' in fault && fault.endsAt === 0) {
      response.destroy();
      return;
    }
    const wait = fault !== null && 'wait' in fault ? fault.wait : null;
    await wait?.();
    const cut = fault !== null && 'cutAt' in fault ? body.subarray(0, fault.cutAt) : body;
    // The host is a part of what clients of S3 sign.
    const { 'content-length': _length, 'transfer-encoding': _encoding, ...others } = headers;
    const { hostname, port } = this.target;
    const passed = request({
      hostname,
      port,
      path: url,
      method,
      headers: { ...others, ...(body.length > 0 || method === 'PUT' ? { 'content-length': cut.length } : {}) },
    });
    passed.end(cut);
    const [answer] = (await once(passed, 'response')) as [IncomingMessage];
    const answered: Buffer[] = [];
    for await (const part of answer) answered.push(part as Buffer);
    if (cut !== body) {
      incoming.socket.destroy();
      return;
    }
    const result = Buffer.concat(answered);
    if (fault !== null && 'change' in fault) fault.change(result);
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    if (fault !== null && 'endsAt' in fault) {
      response.write(result.subarray(0, fault.endsAt), () => response.destroy());
      return;
    }
    for (let at = 0; wait !== null && at < result.length; at += PIECE_BYTES) {
      await wait();
      response.write(result.subarray(at, at + PIECE_BYTES));
    }
    response.end(wait === null ? result : undefined);
  }
}
