/** Mutations that let a list of a thin pool miss a block: section L of docs/soundness.md, T and B of docs/retained-bases.md. */
import type { Mutation } from './mutation.js';

const BASES = 'test/unit/backends/thin/bases.test.ts';
const BOOKMARKS = 'test/unit/backends/thin/bookmarks.test.ts';
const HISTORY = 'test/unit/backends/thin/pool-history.test.ts';

export const THIN: readonly Mutation[] = [
  {
    breaks: 'L15',
    file: 'native/thin/delta_walk.cc',
    from: 'runs_.Add(DeltaKind::kDifferent, left_key, left_key + 1);',
    to: '',
    reason: 'a block that both map, each to a data block of its own, is not reported',
    test: {
      file: 'test/native/thin_delta_test.cc',
      name: 'ThinDeltaTest.FindsExactlyWhereTheDataBlocksOfTwoMappingTreesDiffer',
    },
  },
  {
    breaks: 'L15',
    file: 'native/thin/delta_walk.cc',
    from: `    } else if (left_key < right_key) {
      runs_.Add(DeltaKind::kLeftOnly, left_key, left_key + 1);`,
    to: '    } else if (left_key < right_key) {',
    reason: 'a block that was discarded since the base is not reported',
    test: {
      file: 'test/native/thin_delta_test.cc',
      name: 'ThinDeltaTest.FindsExactlyWhereTheDataBlocksOfTwoMappingTreesDiffer',
    },
  },
  {
    breaks: 'L16',
    file: 'native/thin/device_lookup.cc',
    from: 'if (!IsSameCommit(*superblock, *again)) continue;',
    to: 'if (!IsSameCommit(*superblock, *again) && attempt >= kAttempts) continue;',
    reason: 'devices are looked up across a commit, in blocks that may be used anew',
    test: {
      file: 'test/native/thin_lookup_test.cc',
      name: 'ThinLookupTest.ReadsAgainUntilNoCommitComesBetweenItsReads',
    },
  },
  {
    breaks: 'L16',
    file: 'native/thin/device_lookup.cc',
    from: 'if (root == *ref.root) return Status();',
    to: 'if (root != 0) return Status();',
    reason: 'a list is given although its device has another tree by now',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.FailsWithScanReplacedWhenADeviceHasAnotherTreeThanGiven',
    },
  },
  {
    breaks: 'L16',
    file: 'native/thin/device_lookup.cc',
    from: 'if (number != 0 && superblock->held_root != number) {',
    to: 'if (false) {',
    reason:
      'the metadata snapshot may have been released, and its blocks used anew, during the scan',
    test: {
      file: 'test/native/thin_lookup_test.cc',
      name: 'ThinLookupTest.ConfirmsTwoRootsByOnePathOfOneTreeEachAndTheSuperblockTwice',
    },
  },
  {
    breaks: 'L16',
    file: 'src/backends/thin/metadata/metadata-reader.ts',
    from: 'if (found !== null && isSameCommit(before, after)) return found;',
    to: 'if (found !== null && after !== null) return found;',
    reason: 'roots are taken from a tree that a commit has replaced',
    test: {
      file: 'test/unit/backends/thin/interference.test.ts',
      name: 'a list is looked up again if the pool commits during the first look-up',
    },
  },
  {
    breaks: 'L16',
    file: 'src/backends/thin/thin-snapshots.ts',
    from: 'if (device?.transactionId !== record.madeAt) throw this.#lost(record.objectId);',
    to: 'if (device === undefined) throw this.#lost(record.objectId);',
    reason: 'a device that another tool made under the id of a lost snapshot is scanned',
    test: {
      file: 'test/unit/backends/thin/interference.test.ts',
      name: 'a device that another tool made under the id of a lost snapshot is not taken for it',
    },
  },
  {
    breaks: 'L17',
    file: 'native/thin/metadata_block.cc',
    from: 'if (own_number != number) {',
    to: 'if (false) {',
    reason: 'a node that was written to another place is believed',
    test: {
      file: 'test/native/thin_node_test.cc',
      name: 'ThinNodeTest.RefusesABlockOfAnotherKindOrFromAnotherPlace',
    },
  },
  {
    breaks: 'L17',
    file: 'native/thin/metadata_block.cc',
    from: 'if (found != expected) {',
    to: 'if (false) {',
    reason: 'a damaged node is believed',
    test: {
      file: 'test/native/thin_node_test.cc',
      name: 'ThinNodeTest.RefusesANodeWithAnyBitChanged',
    },
  },
  {
    breaks: 'L17',
    file: 'native/thin/tree_pair.cc',
    from: '{std::max(left.keys.low, right.keys.low), std::min(left.keys.high, right.keys.high)}};',
    to: '{std::max(left.keys.low, right.keys.low), left.keys.high}};',
    reason: 'a node of two trees is checked against the range of one of them',
    test: {
      file: 'test/native/thin_delta_test.cc',
      name: 'ThinDeltaTest.H24ASharedNodeIsCheckedAgainstItsParentsRangeInBothTrees',
    },
  },
  {
    breaks: 'T1',
    file: 'src/backends/thin/bookmarks/thin-bases.ts',
    from: `      if (step !== undefined) {
        await bookmarks.drop(snapshotId);`,
    to: `      await bookmarks.drop(snapshotId);
      if (step !== undefined) {`,
    reason: 'a bookmark goes although there is no list in its place',
    test: {
      file: BASES,
      name: 'a bookmark goes after the list that takes its place is there, and stays if there is none',
    },
  },
  {
    breaks: 'T2',
    file: 'native/scan/change_list_union.cc',
    from: 'if (!time.has_value() || listed.file.generation == *time) return Status();',
    to: 'if (!time.has_value() || listed.file.generation != 0) return Status();',
    reason: 'a list of an earlier device with the same id is used',
    test: {
      file: 'test/native/build_thin_list_test.cc',
      name: 'BuildThinListTest.RefusesListsOfOtherThinDevicesAndListsOfFiles',
    },
  },
  {
    breaks: 'T2',
    file: 'native/thin/build_thin_list.cc',
    from: 'if (progress.has_value() && !(from.target == sides->target && from.base == sides->base)) {',
    to: 'if (false) {',
    reason: 'a device that was replaced between two steps ends up in the list',
    test: {
      file: 'test/native/build_thin_list_test.cc',
      name: 'BuildThinListTest.WorksInStepsAndRefusesAnotherDeviceInALaterOne',
    },
  },
  {
    breaks: 'T3',
    file: 'src/backends/thin/bookmarks/thin-bases.ts',
    from: 'return snapshots.has(snapshotId) || bookmarks.get(snapshotId)?.invalidReason === null;',
    to: 'return snapshots.has(snapshotId) || bookmarks.has(snapshotId);',
    reason: 'lists that lead to a lost bookmark count as the base of deltas',
    test: { file: BASES, name: 'a lost bookmark breaks the lists that lead to it, and no others' },
  },
  {
    breaks: 'T4',
    file: 'src/backends/thin/bookmarks/thin-bases.ts',
    from: 'if (!snapshots.has(step.baseId)) await this.#invalidate(step.baseId, DAMAGED);',
    to: '',
    reason: 'a base whose list is damaged is forgotten without a reason',
    test: {
      file: BASES,
      name: 'a list that was refused is not skipped: its base is lost, with the reason',
    },
  },
  {
    breaks: 'T5',
    file: 'src/backends/thin/bookmarks/thin-bases.ts',
    from: 'for (const each of before) await this.#join(each, onward);',
    to: '',
    reason: 'a base that is dropped takes the older ones with it',
    test: { file: BASES, name: 'lists that end at a base that is dropped are joined with its own' },
  },
  {
    breaks: 'B1',
    file: 'native/thin/delta_walk.cc',
    from: 'if (!was_mapped || TimeOf(leaves.value()) >= sides_.young_from) {',
    to: 'if (!was_mapped || TimeOf(leaves.value()) > sides_.young_from) {',
    reason:
      'writes between the base and the next snapshot have the time of the base, and are missed',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot',
    },
  },
  {
    breaks: 'B2',
    file: 'native/thin/delta_walk.cc',
    from: 'runs_.Add(DeltaKind::kLeftOnly, bookmark->range().low, end);',
    to: '',
    reason: 'a block that was discarded since the deleted base is not reported',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot',
    },
  },
  {
    breaks: 'B3',
    file: 'native/thin/create_bookmark.cc',
    from: 'info.creation_time = (*scan)->creation_time();',
    to: 'info.creation_time = (*scan)->creation_time() + 1;',
    reason: 'the bookmark has a later time than the snapshot',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot',
    },
  },
  {
    breaks: 'B4',
    file: 'native/thin/bookmark_writer.cc',
    from: 'if (status.ok()) status = SyncFd(fd_.get(), path_);',
    to: '',
    reason: 'a power cut after the deletion leaves a bookmark without its blocks',
    test: {
      file: 'test/native/durability_test.cc',
      name: 'DurabilityTest.BookmarksSurviveAPowerCut',
    },
  },
  {
    breaks: 'B4',
    file: 'native/thin/create_bookmark.cc',
    from: 'return SyncDirectoryOf(request.path);',
    to: 'return Status();',
    reason: 'a power cut after the deletion leaves no bookmark',
    test: {
      file: 'test/native/durability_test.cc',
      name: 'DurabilityTest.BookmarksSurviveAPowerCut',
    },
  },
  {
    breaks: 'B4',
    file: 'src/backends/thin/bookmarks/bookmarks.ts',
    from: '    await ledger.insertBookmark(base);\n',
    to: '',
    reason: 'a bookmark has no record, and is swept at the next start',
    test: {
      file: BOOKMARKS,
      name: 'what is kept outlives the snapshot, is told again, and is the base of a scan',
    },
  },
  {
    breaks: 'B7',
    file: 'native/thin/create_bookmark.cc',
    from: `Status status = CountRanges(scan->get(), request, &info);`,
    to: `info.size_blocks /= 2;
  Status status = CountRanges(scan->get(), request, &info);`,
    reason: 'a bookmark of the first half of the volume says that the rest was not mapped',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.GivesTheSameDeltaAgainstABookmarkAsAgainstItsSnapshot',
    },
  },
  {
    breaks: 'B5',
    file: 'native/thin/create_bookmark.cc',
    from: 'if (run.kind == DeltaKind::kDifferent) {',
    to: 'if (false) {',
    reason: 'a snapshot that was written to is retained',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.RefusesToBookmarkASnapshotThatWasWrittenTo',
    },
  },
  {
    breaks: 'B6',
    file: 'src/backends/thin/bookmarks/bookmarks.ts',
    from: 'if (base.lineage !== target.lineage) {',
    to: "if (base.lineage === '') {",
    reason: 'a base is compared with a snapshot of another volume',
    test: {
      file: BOOKMARKS,
      name: 'no scan starts from a base that is not kept, is lost, of another volume or not older',
    },
  },
  {
    breaks: 'B6',
    file: 'native/thin/thin_scan.cc',
    from: 'if (target_.creation_time <= info.creation_time) {',
    to: 'if (false) {',
    reason: 'a base is compared with an older snapshot',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.RefusesABookmarkForATargetThatIsNotYounger',
    },
  },
  {
    breaks: 'B8',
    file: 'src/backends/thin/pool/pool-history.ts',
    from: 'stamp.mappingRoot === found.mappingRoot &&',
    to: '',
    reason: 'metadata that was changed while the plugin was stopped is trusted',
    test: {
      file: HISTORY,
      name: 'an orderly stop leaves nothing to distrust, unless somebody has changed the pool since',
    },
  },
  {
    breaks: 'B9',
    file: 'src/backends/thin/pool/pool-history.ts',
    from: 'return found === pool.transactionId || found === transaction?.opens;',
    to: 'return found <= pool.transactionId || found === transaction?.opens;',
    reason: 'a pool with metadata of an older transaction is served',
    test: {
      file: HISTORY,
      name: 'a pool is known by its last transaction, or by the one that was being opened',
    },
  },
  {
    breaks: 'B9',
    file: 'src/backends/thin/bookmarks/bookmark-rules.ts',
    from: 'if (time >= base.creationTime) return null;',
    to: 'if (time >= 0) return null;',
    reason: 'times that went back, and are assigned again, are trusted',
    test: {
      file: BOOKMARKS,
      name: 'times that do not fit into a mapping, or went back, lose all bases at a start',
    },
  },
  {
    breaks: 'B10',
    file: 'src/backends/thin/bookmarks/bookmark-rules.ts',
    from: `  if (needsCheck)
    return 'the metadata of its pool needs a check, and what was rolled back is not known';
`,
    to: "  if (needsCheck && time < 0) return '';\n",
    reason: 'metadata that needs a check is trusted',
    test: {
      file: BOOKMARKS,
      name: 'metadata that needs a check loses all bases, whoever sees it first',
    },
  },
  {
    breaks: 'B11',
    file: 'src/backends/thin/bookmarks/bookmark-rules.ts',
    from: "if (mode === 'rw' || mode === 'out_of_data_space') return null;",
    to: "if (mode !== 'fail') return null;",
    reason: 'a pool that became read-only, and rolled back a commit, is trusted',
    test: {
      file: BOOKMARKS,
      name: 'a pool that is seen read-only or failed, or asks for a check, loses all bases',
    },
  },
  {
    breaks: 'B12',
    file: 'src/backends/thin/bookmarks/bookmark-rules.ts',
    from: 'if (!interrupted.includes(base.lineage)) return null;',
    to: 'if (base.lineage !== interrupted[0]) return null;',
    reason: 'discards that a power failure has rolled back are missed for all volumes but one',
    test: {
      file: BOOKMARKS,
      name: 'a start after discards that may be forgotten loses the bases of those volumes',
    },
  },
  {
    breaks: 'B12',
    file: 'src/backends/thin/pool/pool-history.ts',
    from: 'interrupted: pool.passesDiscards ? open : []',
    to: 'interrupted: pool.passesDiscards && pool.stopped === null ? open : []',
    reason: 'a volume whose last commit failed before an orderly stop is trusted',
    test: {
      file: HISTORY,
      name: 'a volume whose last commit failed is interrupted in spite of an orderly stop',
    },
  },
  {
    breaks: 'B13',
    file: 'src/backends/thin/pool/pool-history.ts',
    from: 'return distrust(pool.bootId === bootId && pool.stopped === null ? null : ACTIVATED);',
    to: 'return distrust(pool.bootId === bootId ? null : ACTIVATED);',
    reason: 'a pool that another tool has activated after a stop is trusted',
    test: { file: HISTORY, name: 'a pool that somebody else has made active is distrusted' },
  },
  {
    breaks: 'B14',
    file: 'src/backends/thin/thin-copies.ts',
    from: 'if (time + snapshots <= MAX_TIME) return;',
    to: 'if (time <= MAX_TIME) return;',
    reason: 'a group takes the time of the pool beyond what a mapping can hold',
    test: {
      file: 'test/unit/backends/thin/transactions.test.ts',
      name: 'no snapshot is made when the pool cannot count it',
    },
  },
  {
    breaks: 'B14',
    file: 'native/thin/thin_scan.cc',
    from: 'if (time < kLastTime) return Status();',
    to: 'if (time <= kLastTime) return Status();',
    reason: 'mappings whose time has overflown into the data block are compared',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.RefusesTimesThatMappingsCannotHold',
    },
  },
  {
    breaks: 'B15',
    file: 'native/thin/bookmark.cc',
    from: `    if (!status.ok()) return status;
  }
  first_page_ = first;`,
    to: `    if (!status.ok()) break;
  }
  first_page_ = first;`,
    reason: 'a damaged bookmark is believed',
    test: {
      file: 'test/native/thin_fill_test.cc',
      name: 'ThinFillTest.ReportsAnExistingBookmarkAndRefusesADamagedOne',
    },
  },
  {
    breaks: 'B15',
    file: 'src/backends/thin/bookmarks/bookmarks.ts',
    from: 'const missing = files.includes(base.snapshotId) ? null : FILE_IS_GONE;',
    to: 'const missing = files.length > 0 || bases.length > 0 ? null : FILE_IS_GONE;',
    reason: 'a base without a file is offered',
    test: {
      file: BOOKMARKS,
      name: 'a start drops files that no row knows, and loses a base whose file is gone',
    },
  },
];
