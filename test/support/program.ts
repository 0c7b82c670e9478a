/** The command line as users run it: compiled into a few files (scripts/compile.mjs). */
import { packagePath } from '../../src/base/package-root.js';

export const PROGRAM = packagePath('.test-build/program/main.js');
