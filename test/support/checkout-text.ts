/** Texts of this checkout, which tests compare with each other and with the program. */
import { readFileSync } from 'node:fs';
import { packagePath } from '../../src/base/package-root.js';

/** @param path below the root of the checkout */
export const checkoutText = (path: string): string => readFileSync(packagePath(path), 'utf8');
