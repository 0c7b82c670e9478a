/**
 * Superblocks as a tenant's hex editor leaves them: random changes of real ones, and random bytes. Nothing that is
 * accepted makes a later computation fail, or refers to other devices.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readSync } from 'node:fs';
import { after, test } from 'node:test';
import { FILE_SYSTEMS, type FileSystem, type Objection } from '../../src/driver/host/file-systems.js';
import { btrfsObjection, identityOf, isBtrfsGrowable } from '../../src/driver/host/superblock-btrfs.js';
import { ext4Objection, isExt4Growable } from '../../src/driver/host/superblock-ext4.js';
import { isXfsGrowable, xfsObjection } from '../../src/driver/host/superblock-xfs.js';
import { sparseFile } from '../support/loops.js';
import { isNightly } from '../support/nightly.js';
import { type Random, seededRandom } from '../support/random.js';
import { Workspace } from '../support/workspace.js';

const ROUNDS = isNightly ? 300_000 : 8000;
const DEVICE_BYTES = 320n << 20n;

interface Judged {
  offset: number;
  length: number;
  objection(block: Buffer, deviceBytes: bigint): Objection | null;
  isGrowable(block: Buffer, deviceBytes: bigint): boolean;
  /** What must hold of every superblock that is accepted. */
  holds(block: Buffer): boolean;
}

const JUDGED: Readonly<Record<FileSystem, Judged>> = {
  ext4: {
    offset: 1024,
    length: 1024,
    objection: ext4Objection,
    isGrowable: isExt4Growable,
    holds: (block) => block.readUInt32LE(0xe4) === 0 && block.readUInt8(0x200) === 0,
  },
  xfs: {
    offset: 0,
    length: 512,
    objection: xfsObjection,
    isGrowable: isXfsGrowable,
    holds: (block) => block.readBigUInt64BE(48) !== 0n && block.readBigUInt64BE(16) === 0n,
  },
  btrfs: {
    offset: 65536,
    length: 4096,
    objection: btrfsObjection,
    isGrowable: isBtrfsGrowable,
    holds: (block) => block.readBigUInt64LE(136) === 1n && /^[0-9a-f]{8}-/.test(identityOf(block).uuid),
  },
};

const workspace = new Workspace('superblocks');
after(() => workspace.dispose());

function realSuperblock(type: FileSystem): Buffer {
  const { offset, length } = JUDGED[type];
  const image = sparseFile(workspace.path(type), DEVICE_BYTES);
  const force = type === 'ext4' ? '-F' : '-f';
  execFileSync(`mkfs.${type}`, [force, '-q', image], { stdio: ['ignore', 'ignore', 'pipe'] });
  const file = openSync(image, 'r');
  const block = Buffer.alloc(length);
  readSync(file, block, 0, length, offset);
  closeSync(file);
  return block;
}

/** One to four numbers of any width, of values at the ends of their range or any. */
function changed(block: Buffer, random: Random): Buffer {
  const copy = Buffer.from(block);
  for (let times = 1 + random.below(4); times > 0; times -= 1) {
    const width = random.pick([1, 2, 4, 8]);
    // Fields of interest are in the first part; the rest is names and padding.
    const at = random.below(Math.min(copy.length, 640) - width);
    const value = random.pick([0, 0xff, 'bit', 'any'] as const);
    if (value === 'bit') copy.writeUInt8(copy.readUInt8(at) ^ (1 << random.below(8)), at);
    else if (value === 'any') random.bytes(width).copy(copy, at);
    else copy.fill(value, at, at + width);
  }
  return copy;
}

for (const type of FILE_SYSTEMS) {
  test(`H1: ${type}: a changed superblock is checked, and an accepted one is safe to compute with`, () => {
    const { objection, isGrowable, holds } = JUDGED[type];
    const block = realSuperblock(type);
    assert.equal(objection(block, DEVICE_BYTES), null);
    assert.equal(isGrowable(block, DEVICE_BYTES), false);
    assert.match(objection(block, DEVICE_BYTES - 4096n)?.found ?? '', /on a device of/);
    const random = seededRandom(`tenant-superblocks-${type}`);
    let accepted = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const one = round % 50 === 0 ? random.bytes(block.length) : changed(block, random);
      const found = objection(one, DEVICE_BYTES);
      if (found !== null) {
        assert.ok(found.found.length < 100 && found.remedy !== '');
        continue;
      }
      accepted += 1;
      assert.ok(holds(one), one.toString('hex'));
      assert.equal(typeof isGrowable(one, DEVICE_BYTES), 'boolean');
      assert.equal(typeof isGrowable(one, DEVICE_BYTES * 3n + 4096n), 'boolean');
    }
    assert.ok(accepted > ROUNDS / 100 && accepted < ROUNDS, `${accepted} of ${ROUNDS}`);
  });
}
