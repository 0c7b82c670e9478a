/** How much work a transfer may be: limits for the programs at both ends. */

const GIB = 1n << 30n;
const LEAST_S = 60;
/** nbdcopy over TLS took 5.7 s for a GiB on a slow and busy machine. A program that takes ten times as long is in a loop. */
const PER_GIB_S = 60;

export const processorSecondsFor = (bytes: bigint): number => LEAST_S + PER_GIB_S * Number((bytes + GIB - 1n) / GIB);
