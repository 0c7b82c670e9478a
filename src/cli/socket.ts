/** Why a client cannot connect to a plugin's socket, and what to do about it. */
import { stat } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { errorCode } from '../base/errors.js';

const CONNECT_TIMEOUT_MS = 5000;

export interface SocketProblem {
  /** The errno's name. */
  code: string;
  /** A sentence with the remedy. */
  message: string;
}

/** Null if something accepts connections at the path. */
export async function socketProblem(path: string): Promise<SocketProblem | null> {
  const found = await connectFailure(path);
  if (found === null) return null;
  // The kernel refuses a connection to a file or a directory as it does one to a socket that nobody serves.
  const isSocket = await stat(path).then(
    (entry) => entry.isSocket(),
    () => true,
  );
  const code = isSocket ? found : 'ENOTSOCK';
  const message = PROBLEMS[code]?.(path) ?? `cannot connect to the socket ${path} (${code})`;
  return { code, message };
}

const PROBLEMS: Readonly<Record<string, (path: string) => string>> = {
  ENOENT: (path) =>
    `there is no socket at ${path}: start the plugin, or correct the endpoint (--endpoint or CSI_ENDPOINT)`,
  EACCES: (path) =>
    `permission denied for the socket ${path}: run the command as root, or let the plugin serve others with ` +
    'BLOCKDELTA_SOCKET_MODE and permissions of its directory',
  ECONNREFUSED: (path) => `nothing listens on the socket ${path}: the plugin that made it has ended; start it again`,
  ENOTSOCK: (path) => `${path} is not a socket: correct the endpoint (--endpoint or CSI_ENDPOINT)`,
  EPROTOTYPE: (path) => `the socket ${path} is of another kind: correct the endpoint`,
  EAGAIN: (path) =>
    `the socket ${path} accepts no more connections now: the plugin hangs or is overloaded; see its log`,
  ETIMEDOUT: (path) => `the socket ${path} does not accept connections: the plugin hangs; see its log`,
};

/** The errno's name; null if the connection succeeds. */
function connectFailure(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    const end = (code: string | null): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(code);
    };
    const timer = setTimeout(() => end('ETIMEDOUT'), CONNECT_TIMEOUT_MS);
    socket.once('connect', () => end(null));
    socket.once('error', (error) => end(errorCode(error) ?? error.message));
  });
}
