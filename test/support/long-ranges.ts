/** For images that are made without a list: ranges for which nothing is gained by small clusters. */
import type { Ranges } from '../../src/tools/nbd/image.js';

export const LONG: Ranges = { bytesIn: () => 1n << 40n };
