/** Loop devices by their backing file. */
import { execFileSync } from 'node:child_process';

export function loopsOf(backingFile: string): string[] {
  return execFileSync('losetup', ['-n', '-O', 'NAME', '-j', backingFile], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
