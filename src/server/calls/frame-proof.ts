/**
 * Proves at the start that frames can be written to the HTTP/2 stream of a call. A server and a client within the process
 * exchange one call, whose frames and status must arrive unchanged. Knows no service.
 */
import { type ClientHttp2Session, connect } from 'node:http2';
import { Duplex } from 'node:stream';
import {
  Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerWritableStream,
} from '@grpc/grpc-js';
import { framed, requestHeaders } from '../../base/csi/grpc-wire.js';
import { withTimeout } from '../../base/timeout.js';
import { type CallStream, callStreamOf, isWritable } from './call-stream.js';

const PROOF_MS = 2000;
const PROOF_PATH = '/blockdelta.Proof/Frames';
/** More than a flow control window, so that the client's window updates are part of the proof. */
const PROOF_BYTES = 100_000;

let proof: Promise<boolean> | null = null;

/** Whether frames can be written to the stream of a call. The first use of this function finds out, in milliseconds. */
export function proveFrames(): Promise<boolean> {
  proof ??= withTimeout(proofCall(), PROOF_MS, () => false).catch(() => false);
  return proof;
}

/** Makes a call with two frames, the first split over two writes, between a server and a client of its own. */
async function proofCall(): Promise<boolean> {
  const frames = Buffer.concat([proofFrame(PROOF_BYTES), proofFrame(3)]);
  let stream: CallStream | null = null;
  const interceptor: ServerInterceptor = (_method, call) => {
    stream = callStreamOf(call);
    return new ServerInterceptingCall(call);
  };
  const server = new Server({ interceptors: [interceptor] });
  const asIs = (bytes: Buffer): Buffer => bytes;
  const handler = (call: ServerWritableStream<Buffer, Buffer>): void => {
    call.sendMetadata(new Metadata());
    if (stream !== null && isWritable(stream)) {
      stream.write(frames.subarray(0, 7));
      stream.write(frames.subarray(7), () => call.end());
    } else {
      call.end();
    }
  };
  server.register(PROOF_PATH, handler as never, asIs, asIs, 'serverStream');
  const [near, far] = duplexPair();
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  injector.injectConnection(far);
  const session = connect('http://localhost', { createConnection: () => near });
  try {
    const { body, status } = await proofAnswer(session);
    return status === '0' && body.equals(frames);
  } finally {
    session.destroy();
    injector.destroy();
    server.forceShutdown();
  }
}

async function proofAnswer(session: ClientHttp2Session): Promise<{ body: Buffer; status: unknown }> {
  session.on('error', () => undefined);
  const request = session.request(requestHeaders(PROOF_PATH, Number.POSITIVE_INFINITY));
  let status: unknown;
  request.on('trailers', (headers) => {
    status = headers['grpc-status'];
  });
  request.end(proofFrame(0));
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return { body: Buffer.concat(pieces), status };
}

const proofFrame = (bytes: number): Buffer => framed(Buffer.alloc(bytes, bytes & 0xff));

/** Two ends of a connection within the process. */
function duplexPair(): [Duplex, Duplex] {
  const end = (peer: () => Duplex): Duplex =>
    new Duplex({
      read: () => undefined,
      write: (chunk, _encoding, done) => {
        peer().push(chunk);
        done();
      },
      final: (done) => {
        peer().push(null);
        done();
      },
    });
  const near: Duplex = end(() => far);
  const far: Duplex = end(() => near);
  return [near, far];
}
