/** Mutations that let a list of a reflink pool miss a byte: section L of docs/soundness.md, R of docs/retained-bases.md. */
import type { Mutation } from './mutation.js';

export const LISTS: readonly Mutation[] = [
  {
    breaks: 'L1',
    file: 'native/scan/extent.h',
    from: 'if ((flags & kOpaqueFlags) != 0)',
    to: 'if ((flags & kOpaqueFlags & ~FIEMAP_EXTENT_ENCODED) != 0)',
    reason: 'compressed extents are compared by the one address that all their parts have',
    test: { file: 'test/native/extent_test.cc', name: 'ExtentTest.IsDataUnlessAFlagSaysOtherwise' },
  },
  {
    breaks: 'L1',
    file: 'native/scan/btrfs_item.cc',
    from: 'return Opaque(key_offset, Word(bytes, kRamBytes), FIEMAP_EXTENT_DATA_INLINE, generation);',
    to: 'return Opaque(key_offset, Word(bytes, kRamBytes), 0, generation);',
    reason: 'inline extents, which have no address, are all equal',
    test: {
      file: 'test/native/btrfs_item_test.cc',
      name: 'BtrfsItemTest.ProvesNothingByItemsThatAreInlineEncryptedOrUnknown',
    },
  },
  {
    breaks: 'L1',
    file: 'native/scan/btrfs_item.cc',
    from: '{key_offset, offset, length, 0, disk_bytenr | compression}',
    to: '{key_offset, offset, length, 0, compression}',
    reason: 'parts of different compressed extents are equal if they have the same offset',
    test: {
      file: 'test/native/btrfs_item_test.cc',
      name: 'BtrfsItemTest.TellsCompressedExtentsApartByAddressAndCompression',
    },
  },
  {
    breaks: 'L2',
    file: 'native/scan/interval_walk.h',
    from: `target_.displacement() == base_.displacement() && target_.origin() == base_.origin();`,
    to: 'target_.displacement() == base_.displacement();',
    reason: 'addresses of different origins are compared',
    test: {
      file: 'test/native/btrfs_item_test.cc',
      name: 'BtrfsItemTest.ComparesCompressedDataByAddressCompressionAndOffset',
    },
  },
  {
    breaks: 'L2',
    file: 'native/scan/interval_walk.h',
    from: 'if (kind != base_.piece_class() || kind == ExtentClass::kOpaque)',
    to: 'if (kind == ExtentClass::kOpaque)',
    reason: 'zeros count as equal to data',
    test: { file: 'test/native/fill_test.cc', name: 'FillTest.GivesDeltasWorkedOutByHand' },
  },
  {
    breaks: 'L2',
    file: 'native/scan/extent.h',
    from: 'if ((flags & FIEMAP_EXTENT_UNWRITTEN) != 0) return ExtentClass::kZero;',
    to: '',
    reason: 'unwritten blocks, which read as zeros, are equal to the data at their address',
    test: { file: 'test/native/extent_test.cc', name: 'ExtentTest.IsDataUnlessAFlagSaysOtherwise' },
  },
  {
    breaks: 'L3',
    file: 'native/scan/interval_walk.h',
    from: 'std::min({target_.piece_end(), base_.piece_end(), size_bytes_})',
    to: 'std::min({target_.piece_end(), size_bytes_})',
    reason: 'intervals end at the boundaries of the target alone',
    test: { file: 'test/native/fill_test.cc', name: 'FillTest.GivesDeltasWorkedOutByHand' },
  },
  {
    breaks: 'L4',
    file: 'native/scan/fiemap_source.cc',
    from: 'request->fm_flags = FIEMAP_FLAG_SYNC;',
    to: 'request->fm_flags = 0;',
    reason: 'the map shows addresses that dirty pages are about to leave',
    test: {
      file: 'test/native/fiemap_source_test.cc',
      name: 'FiemapSourceTest.ShowsWhatWasJustWrittenOverAPreallocationAsData',
    },
  },
  {
    breaks: 'L5',
    file: 'native/scan/snapshot_file.cc',
    from: 'if ((attributes.fsx_xflags & FS_XFLAG_IMMUTABLE) == 0)',
    to: 'if (false)',
    reason: 'the immutable flag is not checked',
    test: {
      file: 'test/native/file_scan_test.cc',
      name: 'FileScanRefusalTest.RefusesSnapshotsThatHaveChanged',
    },
  },
  {
    breaks: 'L5',
    file: 'native/scan/snapshot_file.cc',
    from: 'if (!*unchanged) {',
    to: 'if (false) {',
    reason: 'the seal is not checked',
    test: {
      file: 'test/native/take_snapshots_test.cc',
      name: 'TakeSnapshotTest.HasASealThatALaterWriteBreaks',
    },
  },
  {
    breaks: 'L5',
    file: 'native/scan/snapshot_file.cc',
    from: 'if (now->st_size != opened_.st_size || !SameTime(now->st_ctim, opened_.st_ctim))',
    to: 'if (now->st_size != opened_.st_size && !SameTime(now->st_ctim, opened_.st_ctim))',
    reason: 'a flag that was cleared and set again during the scan is not noticed',
    test: {
      file: 'test/native/file_scan_test.cc',
      name: 'FileScanTest.CountsAFileAsChangedWhenItsImmutableFlagWasClearedAndSetAgain',
    },
  },
  {
    breaks: 'L5',
    file: 'native/scan/snapshot_file.cc',
    from: `state->st_ino != identity.inode ||`,
    to: '',
    reason: 'another file under the name of the snapshot is scanned',
    test: {
      file: 'test/native/file_scan_test.cc',
      name: 'FileScanRefusalTest.RefusesSnapshotsThatHaveChanged',
    },
  },
  {
    breaks: 'L6',
    file: 'native/scan/address_fence.cc',
    from: 'return *generation == generation_;',
    to: 'return true;',
    reason: 'the generation of a btrfs is not compared, so extents may move between two maps',
    test: {
      file: 'test/native/file_scan_test.cc',
      name: 'FileScanTest.TrustsAddressesOfBtrfsUntilATransactionIsCommitted',
    },
  },
  {
    breaks: 'L6',
    file: 'native/scan/windowed_scan.cc',
    from: 'walk_->TrustAddresses(false);',
    to: '',
    reason: 'equal addresses count as proof although nothing stands still',
    test: {
      file: 'test/native/windowed_scan_test.cc',
      name: 'WindowedScanTest.ReportsAndCountsEverythingEqualByAddressWhenNothingStandsStill',
    },
  },
  {
    breaks: 'L6',
    file: 'native/scan/tree_search_source.cc',
    from: 'if (parsed->generation >= generation) return false;',
    to: '',
    reason: 'items that were replaced while the tree was searched are not noticed',
    test: {
      file: 'test/native/tree_search_source_test.cc',
      name: 'TreeSearchTest.NoticesItemsThatWereRewrittenAndNoOthers',
    },
  },
  {
    breaks: 'L7',
    file: 'native/scan/file_scan.cc',
    from: 'IntervalWalk walk(target_source, base_source, target.size_bytes());',
    to: `IntervalWalk walk(target_source, base_source,
                    base == nullptr ? target.size_bytes()
                                    : std::min(target.size_bytes(), base->size_bytes()));`,
    reason: 'what lies beyond the end of a smaller base is not looked at',
    test: {
      file: 'test/native/file_scan_test.cc',
      name: 'FileScanTest.ReportsWhatATargetHasBeyondTheEndOfItsBase',
    },
  },
  {
    breaks: 'L8',
    file: 'native/scan/fill.cc',
    from: 'outcome.next_range_start = range_start_;',
    to: 'outcome.next_range_start = position_;',
    reason: 'the range that a chunk boundary interrupts is lost',
    test: {
      file: 'test/native/fill_test.cc',
      name: 'FillTest.HandsOnARangeThatALimitInterruptsWithoutWritingIt',
    },
  },
  {
    breaks: 'L8',
    file: 'native/scan/fill.cc',
    from: 'outcome.done = position_ == walk_->size_bytes() && range_start_ == position_;',
    to: 'outcome.done = position_ == walk_->size_bytes();',
    reason: 'the stream ends without the last range, which had no room',
    test: {
      file: 'test/native/fill_test.cc',
      name: 'FillTest.GivesTheRangesOfTheModelWhateverMapsLimitsBuffersAndOffsets',
    },
  },
  {
    breaks: 'L8',
    file: 'native/scan/fill.cc',
    from: 'range_start_ = mark.range_start;',
    to: '',
    reason: 'a window that is scanned again begins after the range it had begun',
    test: {
      file: 'test/native/windowed_scan_test.cc',
      name: 'WindowedScanTest.MissesNoDifferingBlockWhateverMoves',
    },
  },
  {
    breaks: 'R8',
    file: 'src/metadata/snapshot-metadata.ts',
    from: 'if (base.volumeId !== target.volumeId) {',
    to: 'if (base.volumeId === "") {',
    reason: 'snapshots of two volumes are compared',
    test: {
      file: 'test/memory/metadata.test.ts',
      name: 'SM10, SM11: snapshots of two volumes, an older target and a single snapshot have no delta',
    },
  },
  {
    breaks: 'L9',
    file: 'src/metadata/snapshot-metadata.ts',
    from: "snapshot.state !== 'ready'",
    to: "snapshot.snapshotId === ''",
    reason: 'a snapshot that is being taken is scanned',
    test: {
      file: 'test/memory/metadata.test.ts',
      name: 'SM12: a snapshot whose creation has not completed is FAILED_PRECONDITION',
    },
  },
  {
    breaks: 'L9',
    file: 'src/metadata/snapshot-metadata.ts',
    from: 'if (base.sequence >= target.sequence) {',
    to: 'if (base.sequence === -1n) {',
    reason: 'a base that is younger than its target is served',
    test: {
      file: 'test/memory/metadata.test.ts',
      name: 'SM10, SM11: snapshots of two volumes, an older target and a single snapshot have no delta',
    },
  },
  {
    breaks: 'L10',
    file: 'native/scan/change_list_union.cc',
    from: 'if (*version == listed.file) return Status();',
    to: 'if (version->size_bytes == listed.file.size_bytes) return Status();',
    reason: 'a list is used for a file that it was not made from',
    test: {
      file: 'test/native/build_change_list_test.cc',
      name: 'BuildChangeListTest.RefusesAListOfAFileThatWasTouchedAfterIt',
    },
  },
  {
    breaks: 'L10',
    file: 'native/scan/build_change_list.cc',
    from: 'if (*now == expected) return Status();',
    to: 'if (now->size_bytes == expected.size_bytes) return Status();',
    reason: 'a snapshot may change between two steps of its list',
    test: {
      file: 'test/native/build_change_list_test.cc',
      name: 'BuildChangeListTest.RefusesASnapshotThatIsTouchedBetweenTwoSteps',
    },
  },
  {
    breaks: 'L11',
    file: 'native/scan/change_list_union.cc',
    from: 'if (files[i].head().base == files[i - 1].head().target) continue;',
    to: 'if (files[i].head().base.id == files[i - 1].head().target.id) continue;',
    reason: 'a chain leads through two versions of a snapshot',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListUnionTest.RefusesAStepThatBeginsWithAnotherVersionOfTheSnapshotInBetween',
    },
  },
  {
    breaks: 'R7',
    file: 'native/scan/change_list_union.cc',
    from: 'if (file.head().base.file.size_bytes <= file.head().target.file.size_bytes) continue;',
    to: 'continue;',
    reason: 'a chain leads through a smaller snapshot, whose list says nothing of what was cut off',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListUnionTest.RefusesAStepToASmallerSnapshot',
    },
  },
  {
    breaks: 'L11',
    file: 'native/scan/change_list_union.cc',
    from: 'if (is_delta && first.base.id != request.base_id) {',
    to: 'if (false) {',
    reason: 'a chain that begins at another snapshot is accepted',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListUnionTest.RefusesListsThatAreNoChainBetweenTheTwoSnapshots',
    },
  },
  {
    breaks: 'L12',
    file: 'native/scan/change_list_format.cc',
    from: `  if (Get<uint32_t>(page, kChecksum) != ChecksumOf(page)) {
    return InvalidPage(path, number, "has a wrong checksum");
  }
`,
    to: '',
    reason: 'a page is used without its checksum',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListTest.NeverBelievesAFileWithAChangedByte',
    },
  },
  {
    breaks: 'L12',
    file: 'native/scan/change_list_format.cc',
    from: '|| Get<uint64_t>(page, kFileId) != head.file_id) {',
    to: ') {',
    reason: 'a page of another list is used',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListTest.NeverBelievesPagesInAnotherPlaceOrOfAnotherFile',
    },
  },
  {
    breaks: 'L13',
    file: 'native/scan/change_list_union.cc',
    from: 'joined.end = std::max(joined.end, range.end);',
    to: 'joined.end = range.end;',
    reason: 'a short range cuts off a longer one that began before it when lists are joined',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListUnionTest.JoinedListsHaveTheSameUnionAndTheEndsOfBoth',
    },
  },
  {
    breaks: 'L13',
    file: 'native/scan/change_list_union.cc',
    from: 'end = std::max(end, to);',
    to: 'end = to;',
    reason: 'a short range cuts off a longer one when a request is answered from lists',
    test: {
      file: 'test/native/change_list_test.cc',
      name: 'ChangeListUnionTest.IsTheUnionOfAllListsFromAnyOffsetInAnyChunks',
    },
  },
  {
    breaks: 'L14',
    file: 'native/scan/build_change_list.cc',
    from: '!(map->head().target == ListedSnapshot{request_.base->id, progress_.base})',
    to: 'map->head().target.id != request_.base->id',
    reason: 'the stored map of a file that has changed is used in place of the base',
    test: {
      file: 'test/native/build_change_list_test.cc',
      name: 'BuildChangeListTest.UsesAStoredMapOnlyOfTheBaseAndOnlyWhereExtentsStayInPlace',
    },
  },
  {
    breaks: 'L14',
    file: 'native/scan/file_scan.cc',
    from: 'if (maps.any() && moves) {',
    to: 'if (false) {',
    reason: 'maps are stored where extents move',
    test: {
      file: 'test/native/build_change_list_test.cc',
      name: 'BuildChangeListTest.UsesAStoredMapOnlyOfTheBaseAndOnlyWhereExtentsStayInPlace',
    },
  },
  {
    breaks: 'R1',
    file: 'src/backends/reflink/retained-lists.ts',
    from: "await this.native.run('verifyChangeLists', {",
    to: "if (path === '') await this.native.run('verifyChangeLists', {",
    reason: 'a stored list is retained without a look at it',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'what is retained of a snapshot is verified before the snapshot is removed',
    },
  },
  {
    breaks: 'R2',
    file: 'src/backends/reflink/retained-lists.ts',
    from: "const source = { kind: 'lists' as const, sizeBytes: target.sizeBytes, paths };",
    to: "const source = { kind: 'lists' as const, sizeBytes: target.sizeBytes, paths: paths.slice(-1) };",
    reason: 'only the last list of the chain answers',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'a list that a request needs beyond the retained ones is made for it, once',
    },
  },
  {
    breaks: 'R3',
    file: 'src/backends/reflink/retained-lists.ts',
    from: `      await this.lists.discard(join(listsIn(this.directory.layout.root), basename(path)));
      return false;`,
    to: '',
    reason: 'a stored list is retained although it was found to be damaged',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'what is retained of a snapshot is verified before the snapshot is removed',
    },
  },
  {
    breaks: 'R4',
    file: 'src/backends/reflink/reflink-backend.ts',
    from: `      if (await this.#retained.needsFile(opened, snapshotId)) return;
      await this.#snapshots.delete(snapshotId);`,
    to: '      await this.#snapshots.delete(snapshotId);',
    reason: 'the file of a snapshot goes before there is a list of it',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'a kill between any two steps of a deletion leaves a sound base, or none',
    },
  },
  {
    breaks: 'R5',
    file: 'src/backends/reflink/retained-lists.ts',
    from: "else await rename(join(bases, step.name), join(bases, markName(step.baseId, 'lost')));",
    to: '',
    reason: 'a damaged list stays the base of deltas',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'a damaged list invalidates its base and those before it, with the reason',
    },
  },
  {
    breaks: 'R6',
    file: 'src/backends/reflink/retained-lists.ts',
    from: 'for (const each of before) await this.#join(opened, each, own);',
    to: '',
    reason: 'a base that is dropped takes the older ones with it',
    test: {
      file: 'test/backend/reflink-bases.test.ts',
      name: 'a base that is dropped leaves the older ones usable',
    },
  },
];
