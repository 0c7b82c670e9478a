/**
 * Limits how many TLS handshakes may begin on the TCP listener, for each source and for all sources together. A handshake
 * costs the main thread about 2 ms, and anybody who reaches the port can ask for one. Does no I/O and reads no clock.
 *
 * Sources that have proved their identity draw on a share of their own, so that a flood from many strange addresses does not
 * keep a router from connecting again. A source is an IPv4 address, or an IPv6 network of 64 bits, because one host may use all
 * addresses of such a network.
 */

interface Rate {
  /** How many may begin at once. */
  readonly burst: number;
  /** How many more may begin each second. */
  readonly perSecond: number;
}

/** A router has two connections to a node, and tries each again every five seconds while it is refused. */
const SOURCE: Rate = { burst: 32, perSecond: 4 };
/** The share of all strangers together. All known sources together have a second share of the same size. */
const SHARE: Rate = { burst: 64, perSecond: 32 };
/** Beyond this number, the source that was seen the longest ago is forgotten, which only gives this source a new burst. */
const MAX_SOURCES = 4096;
const MAX_KNOWN = 256;

export class HandshakeRate {
  readonly #sources = new Map<string, Bucket>();
  readonly #known = new Map<string, true>();
  readonly #strangersShare = new Bucket(SHARE);
  readonly #knownShare = new Bucket(SHARE);

  /**
   * Counts a handshake that is about to begin and returns null, or returns the reason why it must not.
   *
   * @param now in milliseconds of a clock that never goes back
   */
  refusal(address: string, now: number): string | null {
    const source = sourceOf(address);
    const own = this.#sources.get(source) ?? new Bucket(SOURCE);
    putLast(this.#sources, source, own, MAX_SOURCES);
    const isKnown = this.#known.has(source);
    const share = isKnown ? this.#knownShare : this.#strangersShare;
    if (own.isEmpty(now)) {
      return `${source} began more than ${described(SOURCE)}: find what connects from there, or block it`;
    }
    if (share.isEmpty(now)) {
      const who = isKnown ? 'sources of known peers' : 'sources of unknown peers';
      return `all ${who} began more than ${described(SHARE)}: let only routers reach the port`;
    }
    own.take();
    share.take();
    return null;
  }

  /** Notes that a peer at this address has proved its identity. */
  proved(address: string): void {
    putLast(this.#known, sourceOf(address), true, MAX_KNOWN);
  }
}

/** A token bucket. */
class Bucket {
  readonly #rate: Rate;
  #tokens: number;
  #filledAt = Number.NEGATIVE_INFINITY;

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#tokens = rate.burst;
  }

  isEmpty(now: number): boolean {
    const { burst, perSecond } = this.#rate;
    const gained = ((now - this.#filledAt) / 1000) * perSecond;
    this.#tokens = Math.min(burst, this.#tokens + gained);
    this.#filledAt = now;
    return this.#tokens < 1;
  }

  take(): void {
    this.#tokens -= 1;
  }
}

/** The IPv4 address, or the first 64 bits of the IPv6 address, that a socket reports. */
export function sourceOf(address: string): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address;
  const [head = '', tail] = address.replace(/%.*/, '').split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const after = tail === '' ? [] : tail.split(':');
    while (groups.length + after.length < 8) groups.push('0');
    groups.push(...after);
  }
  return `${groups.slice(0, 4).join(':')}::/64`;
}

function putLast<T>(map: Map<string, T>, key: string, value: T, limit: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > limit && oldest !== undefined) map.delete(oldest);
}

function described({ burst, perSecond }: Rate): string {
  return `${burst} handshakes at once and ${perSecond} each second`;
}
