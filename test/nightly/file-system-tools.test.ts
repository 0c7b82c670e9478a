/**
 * What the oldest supported kernel mounts, made with the tools of Debian 13: its packages in a root directory of their
 * own, where test/integration/node/file-system-features.test.ts runs. Skipped where apt has no mirror of Debian.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const TEST = packagePath('.test-build/test/integration/node/file-system-features.test.js');
const SOURCES = '/etc/apt/sources.list.d';
const PACKAGES = 'base-files,btrfs-progs,coreutils,e2fsprogs,libstdc++6,mount,util-linux,xfsprogs';
/** In a mount namespace: what the machine shares with the root directory, then the command in it. */
const IN_ROOT = `
root=$1; checkout=$2; shift 2
mount --rbind "$root" "$root" && cd "$root" && mount -t tmpfs tmpfs ./tmp && mkdir -p "./$checkout" &&
  mount --bind "$checkout" "./$checkout" && mount --rbind /dev ./dev && mount --rbind /sys ./sys &&
  mount -t proc proc ./proc && exec chroot . "$@"`;

const mirror = (existsSync(SOURCES) ? readdirSync(SOURCES) : [])
  .map((name) => readFileSync(join(SOURCES, name), 'utf8'))
  .find((text) => /^(Suites:|deb )(.*\s)?(bookworm|trixie)(\s|$)/m.test(text));

const workspace = new Workspace('file-system-tools');
after(() => workspace.dispose());

test("the oldest supported kernel mounts what Debian 13's tools make", {
  skip: skipUnlessRoot || (mirror === undefined && `no mirror of Debian in ${SOURCES}`),
}, (t) => {
  const [sources, root] = [workspace.path('debian.sources'), workspace.path('root')];
  writeFileSync(sources, (mirror ?? '').replaceAll('bookworm', 'trixie'));
  const options = ['--quiet', '--mode=root', '--variant=extract', `--include=${PACKAGES}`];
  execFileSync('mmdebstrap', [...options, 'trixie', root, sources], { stdio: 'inherit' });
  cpSync(process.execPath, join(root, 'usr/bin/node'));
  const inRoot = (...command: string[]): string => {
    const isolated = ['--mount', '--propagation', 'private', 'sh', '-c', IN_ROOT, 'sh'];
    const args = [...isolated, root, packagePath('.'), ...command];
    const { status, stdout, stderr } = spawnSync('unshare', args, {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
    });
    assert.equal(status, 0, `${stdout}${stderr}`);
    return stdout;
  };
  const version = inRoot('mkfs.xfs', '-V').trim();
  assert.match(version, /version (6\.[1-9]\d|[7-9])/, 'newer than what Debian 12 has');
  const said = inRoot('node', '--test-reporter=tap', TEST);
  const [, passed] = /^# pass (\d+)$/m.exec(said) ?? [];
  t.diagnostic(`${version}: ${passed} tests pass`);
  assert.ok(Number(passed) > 0 && /^# skipped 0$/m.test(said), said);
});
