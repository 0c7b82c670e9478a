/** Parses the settings of transfers, by which other nodes read snapshots of this node. Reads no environment itself. */
import { isIPv4 } from 'node:net';
import type { ListenSettings } from '../../base/settings/tls.js';
import { ConfigError, parseSize } from '../../base/settings/values.js';

export interface TransferSettings {
  /** None: the node serves no snapshot to other nodes. */
  readonly ports: readonly number[];
  /** The address to listen on. */
  readonly host: string;
  /** Null: as fast as it goes. */
  readonly bytesPerSecond: bigint | null;
}

const MOST_PORTS = 64;
const ANY = '0.0.0.0';

type Given = (name: 'BLOCKDELTA_TRANSFER_PORTS' | 'BLOCKDELTA_TRANSFER_RATE') => string | undefined;

/** @param listen where routers reach the node: only they arrange transfers */
export function parseTransfers(given: Given, listen: ListenSettings | null): TransferSettings {
  const ports = given('BLOCKDELTA_TRANSFER_PORTS');
  const rate = given('BLOCKDELTA_TRANSFER_RATE');
  if (ports !== undefined && listen === null) {
    throw new ConfigError(
      'BLOCKDELTA_TRANSFER_PORTS is set and BLOCKDELTA_LISTEN_ADDRESS is not: a router arranges transfers, so set the address ' +
        'where it reaches this node, or neither',
    );
  }
  const host = listen?.address.host ?? ANY;
  return Object.freeze({
    ports: Object.freeze(ports === undefined ? [] : parsePorts(ports)),
    // Readers connect by IPv4.
    host: isIPv4(host) ? host : ANY,
    bytesPerSecond: rate === undefined ? null : parseSize('BLOCKDELTA_TRANSFER_RATE', rate),
  });
}

function parsePorts(value: string): number[] {
  const [, from, to = from] = /^(\d{4,5})(?:-(\d{4,5}))?$/.exec(value) ?? [];
  const [first, last] = [Number(from), Number(to)];
  if (from === undefined || first < 1024 || last > 65_535 || last < first || last - first >= MOST_PORTS) {
    throw new ConfigError(
      `BLOCKDELTA_TRANSFER_PORTS is '${value}': it must be a port or two joined by a hyphen, 1024 to 65535, such as ` +
        `10900-10907, and at most ${MOST_PORTS} ports`,
    );
  }
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
