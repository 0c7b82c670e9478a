/** The committed types against the protos: what proto-loader's generator makes of them today. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CONVERSION } from '../../../src/base/csi/proto.js';
import { packagePath } from '../../../src/base/package-root.js';
import { temporaryDirectory } from '../../support/temporary.js';

/** The flags of the generator for these options of the decoder. */
function flagsOf(conversion: typeof CONVERSION): string[] {
  return Object.entries(conversion).map(([name, value]) =>
    value === true ? `--${name}` : `--${name}=${(value as { name: string }).name}`,
  );
}

function filesOf(directory: string): Map<string, string> {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .sort();
  return new Map(names.map((name) => [name, readFileSync(join(directory, name), 'utf8')]));
}

const GENERATED: readonly [directory: string, ...protos: string[]][] = [
  ['src/base/csi/generated', 'proto/csi.proto'],
  ['src/driver/legacy/generated', 'proto/csi-v0.3.proto', 'proto/csi-v0.1.proto'],
];

for (const [place, ...protos] of GENERATED) {
  test(`the types in ${place} are what the generator makes of ${protos.join(' and ')} with the options of the decoder`, () => {
    const directory = temporaryDirectory();
    const flags = [...flagsOf(CONVERSION), '--grpcLib=@grpc/grpc-js', '--importFileExtension=.js'];
    const generator = packagePath('node_modules/.bin/proto-loader-gen-types');
    // One after the other, because the generator writes what two protos share for both at once.
    for (const proto of protos) {
      execFileSync(generator, [...flags, `--outDir=${directory}`, proto], {
        cwd: packagePath('.'),
      });
    }
    const [expected, committed] = [directory, packagePath(place)].map(filesOf);
    assert.deepEqual([...(committed?.keys() ?? [])], [...(expected?.keys() ?? [])]);
    for (const [name, text] of expected ?? []) {
      assert.ok(committed?.get(name) === text, `${name} differs: run \`npm run generate:types\``);
    }
  });
}
