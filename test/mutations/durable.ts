/** Mutations that lose or leak something in a kill, a failure or a power cut: section D of docs/soundness.md. */
import type { Mutation } from './mutation.js';

const TRANSACTIONS = 'test/unit/backends/thin/transactions.test.ts';
const RETAINED = 'test/unit/volumes/retained-bases.test.ts';
const RECONCILE = 'test/unit/volumes/reconcile.test.ts';
const DURABILITY = 'test/native/durability_test.cc';
const TAKE = 'test/native/take_snapshots_test.cc';

export const DURABLE: readonly Mutation[] = [
  {
    breaks: 'D1',
    file: 'src/volumes/volume-manager.ts',
    from: "state: 'creating',",
    to: "state: 'ready',",
    reason: 'a volume is ready before it has its storage',
    test: {
      file: 'test/unit/volumes/volume-manager.test.ts',
      name: 'a volume that could not be rolled back is not handed out: the next call creates it anew',
    },
  },
  {
    breaks: 'D1',
    file: 'src/volumes/snapshot-sets.ts',
    from: "state: 'creating',",
    to: "state: 'ready',",
    reason: 'a snapshot is ready before it is taken',
    test: {
      file: 'test/unit/volumes/snapshot-manager.test.ts',
      name: 'LS2: a snapshot that is being taken is not listed, and a repeated request is ABORTED',
    },
  },
  {
    breaks: 'D1',
    file: 'src/volumes/volume-manager.ts',
    from: `      await this.#rollBack(known, request);
      return this.#createNew(request);`,
    to: '      return known;',
    reason: 'a volume that a killed call has left half made is handed out',
    test: {
      file: 'test/unit/volumes/volume-manager.test.ts',
      name: 'an unfinished volume contradicts no request: it is rolled back and created anew',
    },
  },
  {
    breaks: 'D2',
    file: 'src/volumes/volume-manager.ts',
    from: `    await catalogue.setVolumeState(volumeId, 'deleting');
    await backend.deleteVolume(volumeId);
    await catalogue.removeVolume(volumeId);`,
    to: `    await catalogue.removeVolume(volumeId);
    await backend.deleteVolume(volumeId);`,
    reason: 'the row goes before the storage, which a kill in between leaves for ever',
    test: {
      file: 'test/memory/snapshots.test.ts',
      name: 'DV6: a deletion that failed half way is completed by the repeated call',
    },
  },
  {
    breaks: 'D2',
    file: 'src/volumes/snapshot-sets.ts',
    from: 'await markDeleting(catalogue, { ...set, members });',
    to: '',
    reason: 'a kill in the middle of a deletion leaves a snapshot that is ready and has no file',
    test: {
      file: RETAINED,
      name: 'a kill between any two steps of a deletion ends with one base, by the next call or the next start',
    },
  },
  {
    breaks: 'D3',
    file: 'src/volumes/retained-bases.ts',
    from: 'const base = await this.#retain(backend, snapshot, next?.snapshotId ?? null);',
    to: `await backend.deleteSnapshot(snapshotId);
          const base = await this.#retain(backend, snapshot, next?.snapshotId ?? null);`,
    reason: 'the snapshot goes before anything is retained of it',
    test: {
      file: RETAINED,
      name: 'a deleted snapshot is retained with its sequence, its size and its times',
    },
  },
  {
    breaks: 'D3',
    file: 'src/catalogue/snapshots.ts',
    from: 'if (base !== null) insertRetainedBase(database, snapshot, base);',
    to: '',
    reason: 'what is retained of a snapshot has no record',
    test: {
      file: RETAINED,
      name: 'a deleted snapshot is retained with its sequence, its size and its times',
    },
  },
  {
    breaks: 'D4',
    file: 'src/volumes/reconcile.ts',
    from: 'await backend.abandonClone(volumeId, sourceVolumeId);',
    to: 'await backend.deleteVolume(volumeId);',
    reason: 'the source of a clone that was killed stays frozen',
    test: {
      file: RECONCILE,
      name: 'a clone that was being created is rolled back, and its source is usable',
    },
  },
  {
    breaks: 'D4',
    file: 'src/volumes/reconcile.ts',
    from: 'const unfinished = deps.lacksRows ? NOTHING : await unfinishedWork(deps);',
    to: 'const unfinished = await unfinishedWork(deps);',
    reason: 'a catalogue that has lost rows rolls back what was completed since',
    test: {
      file: 'test/hostile/catalogue-lost-rows.test.ts',
      name: 'H21: incomplete objects in a catalogue that has lost rows are not rolled back, because they may be in use',
    },
  },
  {
    breaks: 'D4',
    file: 'src/volumes/reconcile.ts',
    from: "if (stateOf(set) === 'deleting') {",
    to: "if (stateOf(set) !== 'creating' && set.group === null) {",
    reason: 'the deletion of a group that was killed is taken for its creation',
    test: {
      file: RECONCILE,
      name: 'the deletion of a group is completed, with the lineage of its volumes',
    },
  },
  {
    breaks: 'D4',
    file: 'src/backends/reflink/reflink-backend.ts',
    from: `          await this.#native.run('removeFile', { path: join(directory, name) });
`,
    to: '',
    reason: 'files that kills have left are never removed',
    test: {
      file: 'test/backend/reflink.test.ts',
      name: 'leftovers of a killed run are swept and never listed, and nothing else is swept',
    },
  },
  {
    breaks: 'D5',
    file: 'native/device/files.cc',
    from: 'RENAME_NOREPLACE',
    to: '0',
    reason: 'a file of that name that came meanwhile is replaced',
    test: { file: 'test/native/files_test.cc', name: 'FilesTest.NeverReplacesAnExistingFile' },
  },
  {
    breaks: 'D5',
    file: 'native/device/files.cc',
    from: 'if (!published_ && fd_.valid()) unlink(names_.temporary.c_str());',
    to: '',
    reason: 'what a failed call has made stays under its temporary name',
    test: {
      file: 'test/native/files_test.cc',
      name: 'FilesTest.LeavesNothingOfANewFileThatIsGivenUp',
    },
  },
  {
    breaks: 'D6',
    file: 'native/device/files.cc',
    from: 'Status status = SyncFd(fd(), temporary());',
    to: 'Status status;',
    reason: 'a file gets its name before its content is on the disk',
    test: { file: DURABILITY, name: 'DurabilityTest.NewAndRemovedFilesSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/device/files.cc',
    from: `  return SyncDirectoryOf(file->final());
}

Status CloneInto`,
    to: `  return Status();
}

Status CloneInto`,
    reason: 'a power cut takes the name of a volume that was acknowledged',
    test: { file: DURABILITY, name: 'DurabilityTest.NewAndRemovedFilesSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/device/files.cc',
    from: '  if (status.ok()) status = SyncDirectoryOf(path);\n',
    to: '',
    reason: 'a power cut brings back a file that was deleted',
    test: { file: DURABILITY, name: 'DurabilityTest.NewAndRemovedFilesSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/device/files.cc',
    from: `  return SyncDirectoryOf(file->final());
}

Result<bool> GrowFile`,
    to: `  return Status();
}

Result<bool> GrowFile`,
    reason: 'a power cut takes the name of a volume that was restored',
    test: { file: DURABILITY, name: 'DurabilityTest.ClonesAndSnapshotsSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/device/take_snapshots.cc',
    from: 'Status status = SyncDirectoryOf(directory + "/");',
    to: 'Status status;\n    static_cast<void>(directory);',
    reason: 'a power cut takes the name of a snapshot that was acknowledged',
    test: { file: DURABILITY, name: 'DurabilityTest.ClonesAndSnapshotsSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/device/take_snapshots.cc',
    from: '  if (status.ok()) status = SyncFd(file->fd(), file->final());\n',
    to: '',
    reason: 'a snapshot that can be written to is left by a power cut',
    test: { file: DURABILITY, name: 'DurabilityTest.ClonesAndSnapshotsSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/scan/change_list_writer.cc',
    from: 'if (status.ok()) status = SyncFd(fd_.get(), path_);',
    to: '',
    reason: 'a list gets its name before its pages are on the disk',
    test: { file: DURABILITY, name: 'DurabilityTest.ChangeListsSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/scan/change_list_writer.cc',
    from: 'return SyncDirectoryOf(final_path);',
    to: 'return Status();',
    reason: 'a list from a deleted snapshot is gone after a power cut',
    test: { file: DURABILITY, name: 'DurabilityTest.ChangeListsSurviveAPowerCut' },
  },
  {
    breaks: 'D6',
    file: 'native/scan/change_list_writer.cc',
    from: `  Status status = WriteAll(fd_.get(), page.data(), page.size(), 0, path_);
  if (status.ok()) status = SyncFd(fd_.get(), path_);`,
    to: `  Status status = SyncFd(fd_.get(), path_);
  if (status.ok()) status = WriteAll(fd_.get(), page.data(), page.size(), 0, path_);`,
    reason: 'the head of a list is written after the flush',
    test: { file: DURABILITY, name: 'DurabilityTest.ChangeListsSurviveAPowerCut' },
  },
  {
    breaks: 'D7',
    file: 'native/device/source_volume.cc',
    from: 'if (loop_.valid()) {',
    to: 'if (false) {',
    reason: 'what is in the page cache of the loop device is not in the snapshot',
    test: { file: TAKE, name: 'TakeSnapshotTest.HasWhatWasWrittenToAnAttachedDevice' },
  },
  {
    breaks: 'D8',
    file: 'native/device/take_snapshots.cc',
    from: 'if (!freeze.ok()) return freeze.TakeStatus();',
    to: 'if (!freeze.ok()) continue;',
    reason: 'a file system that cannot be frozen is snapshotted while it is written to',
    test: { file: TAKE, name: 'TakeSnapshotTest.RefusesAFrozenFileSystemAndLeavesItFrozen' },
  },
  {
    breaks: 'D8',
    file: 'native/device/take_snapshots.cc',
    from: 'const bool stood_still = before[position].has_value() && *after == before[position];',
    to: 'const bool stood_still = *after == before[position];',
    reason: 'raw devices without counters are taken for idle, so a group has no common moment',
    test: {
      file: 'test/native/group_snapshots_test.cc',
      name: 'GroupSnapshotsTest.NeverAssumesThatRawDevicesWithoutWriteCountersAreIdle',
    },
  },
  {
    breaks: 'D8',
    file: 'native/device/source_volume.cc',
    from: 'if (!(BackingOf(*info) == FileIdentity{file.st_dev, file.st_ino})) {',
    to: 'if (file.st_ino == 0) {',
    reason: 'the device that is flushed and frozen has another file',
    test: { file: TAKE, name: 'TakeSnapshotTest.RefusesALoopDeviceThatNowHasAnotherFile' },
  },
  {
    breaks: 'D8',
    file: 'native/device/freeze.cc',
    from: '    return Status::Errno(EINVAL, "FITHAW", path_, "another process thawed it meanwhile");\n',
    to: '    return Status();\n',
    reason: 'a file system that was thawed while it was cloned counts as frozen',
    test: {
      file: 'test/native/guardian_test.cc',
      name: 'GuardianTest.AFileSystemThatAnotherHasThawedMeanwhileIsAFailure',
    },
  },
  {
    breaks: 'D9',
    file: 'native/guardian/main.cc',
    from: '  ThawAll();\n',
    to: '  if (held_count > kMaxHeld) ThawAll();\n',
    reason: 'a plugin that is killed leaves its file systems frozen',
    test: {
      file: 'test/native/guardian_test.cc',
      name: 'GuardianTest.H19AGuardianEndsWithItsParentThawsWhatIsLeftAndLeavesNoProcess',
    },
  },
  {
    breaks: 'D9',
    file: 'native/device/guardian.cc',
    from: 'Status status = Ioctl(mount_fd, FITHAW, 0ul, "FITHAW", path);',
    to: 'Status status;\n    static_cast<void>(mount_fd);',
    reason: 'a guardian that is killed leaves a file system frozen',
    test: {
      file: 'test/native/guardian_test.cc',
      name: 'GuardianTest.H19AFileSystemIsThawedWhenItsGuardianIsKilled',
    },
  },
  {
    breaks: 'D10',
    file: 'native/device/take_snapshots.cc',
    from: 'Status status = WriteSeal(file.fd(), file.temporary());',
    to: 'Status status;',
    reason: 'a snapshot has no seal, so that a later write to it is not noticed',
    test: { file: TAKE, name: 'TakeSnapshotTest.HasASealThatALaterWriteBreaks' },
  },
  {
    breaks: 'D10',
    file: 'native/device/take_snapshots.cc',
    from: 'if (status.ok()) status = SetImmutableFd(file->fd(), true, file->final());',
    to: '',
    reason: 'snapshots can be written to, moved and deduplicated',
    test: {
      file: 'test/native/take_snapshots_test.cc',
      name: 'TakeSnapshotTest.FreezesAMountedVolumeAndHasItsLatestWrites',
    },
  },
  {
    breaks: 'D10',
    file: 'native/device/files.cc',
    from: 'return *unchanged ? Status() : Changed(path, "was changed after it was taken");',
    to: 'return Status();',
    reason: 'a snapshot that was written to is restored',
    test: {
      file: 'test/native/files_test.cc',
      name: 'FilesOnPoolTest.RefusesToCloneASealedFileThatWasWrittenOrTruncated',
    },
  },
  {
    breaks: 'D11',
    file: 'src/backends/thin/pool/pool-transaction.ts',
    from: `        await this.#raise(transaction);
        await ledger.apply();
        return result;`,
    to: `        await ledger.apply();
        await this.#raise(transaction);
        return result;`,
    reason: 'the ledger is ahead of the pool, which a kill in between leaves unusable',
    test: { file: TRANSACTIONS, name: 'creating a volume converges after a kill at every step' },
  },
  {
    breaks: 'D11',
    file: 'src/backends/thin/pool/pool-transaction.ts',
    from: '      await this.#skipForeignIds(devices.length);\n',
    to: '',
    reason: 'a device of another tool is deleted when a creation is undone',
    test: {
      file: 'test/unit/backends/thin/interference.test.ts',
      name: 'a device that somebody else made under the next id is left alone',
    },
  },
  {
    breaks: 'D11',
    file: 'src/backends/thin/pool/pool-transaction.ts',
    from: 'if (status.transactionId !== transaction.opens - 1n) {',
    to: "if (status.mode === 'fail') {",
    reason: 'metadata that does not belong to the ledger is changed',
    test: {
      file: TRANSACTIONS,
      name: 'a pool with another transaction id than the ledger expects is not changed',
    },
  },
  {
    breaks: 'D11',
    file: 'src/backends/thin/pool/pool-transaction.ts',
    from: `      await this.deps.ledger.begin([], [objectId]);
      await this.#settle();`,
    to: `      const device = await this.deps.ledger.device(objectId);
      if (device !== null) await this.#delete(device);
      await this.deps.ledger.begin([], [objectId]);
      await this.#settle();`,
    reason:
      'a device is deleted before the ledger knows, so that a kill leaves a record of nothing',
    test: { file: TRANSACTIONS, name: 'deleting a volume converges after a kill at every step' },
  },
  {
    breaks: 'D11',
    file: 'src/backends/thin/ledger/sqlite-ledger.ts',
    from: "database.run(\"UPDATE devices SET state = 'live' WHERE state = 'deleting'\");",
    to: '',
    reason: 'a deletion that was refused is carried out by the next change',
    test: {
      file: 'test/unit/backends/thin/interference.test.ts',
      name: 'a volume that is active under a name of somebody else is not deleted, and nothing stays open',
    },
  },
  {
    breaks: 'D12',
    file: 'src/volumes/snapshot-sets.ts',
    from: `    // Precedes the rows' change, because a set in state \`deleting\` cannot be kept.
    await backend.check();
`,
    to: '',
    reason: 'a pool that is not mounted is taken for one without the snapshot',
    test: {
      file: 'test/hostile/bad-day-pool.test.ts',
      name: 'H17: a pool whose disk is unmounted is unavailable, and has lost nothing, on xfs',
    },
  },
  {
    breaks: 'D12',
    file: 'src/volumes/reconcile.ts',
    from: 'if (recorded !== found) {',
    to: "if (recorded === '') {",
    reason: 'an empty directory is served in place of the pool',
    test: {
      file: RECONCILE,
      name: 'a pool with another identity is refused, and a new pool is registered',
    },
  },
  {
    breaks: 'D13',
    file: 'src/volumes/volume-source.ts',
    from: 'return sourceVolumeId === null ? [] : [volumeKey(sourceVolumeId)];',
    to: 'return sourceVolumeId === null ? [] : [];',
    reason: 'a volume can be deleted while it is cloned',
    test: {
      file: 'test/unit/volumes/volume-manager.test.ts',
      name: 'a volume that is being cloned is locked until the clone exists',
    },
  },
  {
    breaks: 'D13',
    file: 'src/metadata/snapshot-metadata.ts',
    from: 'const keys = [shared(snapshotKey(baseId)), shared(snapshotKey(targetId))];',
    to: 'const keys = [shared(snapshotKey(targetId))];',
    reason: 'the base of a delta can be deleted, and its blocks used anew, while it is read',
    test: {
      file: 'test/integration/retained-bases.test.ts',
      name: 'a base is not dropped while a stream reads it, and deleting it again does not conflict with one',
    },
  },
  {
    breaks: 'D14',
    file: 'src/volumes/reconcile.ts',
    from: 'const sizeBytes = await finishExpansion(catalogue, backend, grown);',
    to: 'const { sizeBytes } = grown.volume;',
    reason: 'a volume that was growing when the plugin was killed keeps its old size on record',
    test: {
      file: RECONCILE,
      name: 'a volume larger than its record keeps its size, and its device follows',
    },
  },
  {
    breaks: 'D15',
    file: 'src/database/sound-database.ts',
    from: "if (found !== 'ok')",
    to: "if (found === 'never')",
    reason: 'a damaged catalogue is used',
    test: {
      file: 'test/unit/catalogue/damage.test.ts',
      name: 'H21: random bytes in any page of the catalogue are detected before a row is read',
    },
  },
  {
    breaks: 'D16',
    file: 'src/backup/repository.ts',
    from: 'if (backing === (await this.#imageOf(directory, manifest.base))) {',
    to: 'if (backing !== undefined) {',
    reason: 'after a kill the new manifest is taken although the image is the old one',
    test: {
      file: 'test/unit/backup/restore.test.ts',
      name: 'a kill between any two steps of replacing an image leaves the old one or the new one',
    },
  },
];
