/** The address of a driver's socket, as CSI_ENDPOINT gives it. */
import { isAbsolute } from 'node:path';
import { SOCKET_PATH_MAX } from '../../base/settings/values.js';

/** Returns the path of the socket. Throws an Error whose message is for the user. */
export function parseClientEndpoint(endpoint: string): string {
  const path = endpoint.startsWith('unix://') ? endpoint.slice('unix://'.length) : endpoint;
  if (!isAbsolute(path)) {
    throw new Error(`the endpoint is '${endpoint}'; it must be like unix:///run/blockdelta/csi.sock`);
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_MAX) {
    throw new Error(`the endpoint's path is ${bytes} bytes long; the kernel accepts ${SOCKET_PATH_MAX}`);
  }
  return path;
}
