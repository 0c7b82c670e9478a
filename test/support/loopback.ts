/** Addresses of this host that no other test listens on: all of 127.0.0.0/8 is local, so no port is shared. */
import { randomInt } from 'node:crypto';
import type { HostPort } from '../../src/base/settings/values.js';

export function loopbackAddress(): HostPort {
  return { host: `127.${randomInt(1, 255)}.${randomInt(0, 255)}.${randomInt(1, 255)}`, port: 9810 };
}
