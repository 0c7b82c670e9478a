// Change lists as files: what is written is read back, what is damaged is never believed, and the
// union of a chain is what a bitmap of all its ranges says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "native/scan/change_list_file.h"
#include "native/scan/change_list_union.h"
#include "native/scan/change_list_writer.h"
#include "test/native/chunks.h"
#include "test/native/pool.h"
#include "test/native/random_seed.h"
#include "test/native/status_assertions.h"

namespace blockdelta::test {
namespace {

using change_list::kPageBytes;
using change_list::kUnitBytes;

using Entries = std::vector<ChangeListEntry>;

constexpr uint64_t kUnits = 1 << 20;
constexpr uint64_t kSize = kUnits * kUnitBytes;

ListedSnapshot Snapshot(int number, uint64_t size_bytes = kSize) {
  const auto n = static_cast<uint64_t>(number);
  return {"snapshot-" + std::to_string(number), {100 + n, n, size_bytes, 1000 + n}};
}

using Random = std::mt19937_64;

uint64_t Below(Random* random, uint64_t limit) { return (*random)() % limit; }

// Entries that leave a gap, or touch the one before with another address.
Entries RandomEntries(Random* random, ChangeListKind kind, size_t count, uint64_t units) {
  const bool is_map = kind == ChangeListKind::kMap;
  Entries entries;
  uint64_t at = Below(random, 4);
  while (entries.size() < count) {
    const uint64_t length = 1 + (Below(random, 20) == 0 ? Below(random, 5000) : Below(random, 16));
    if (at + length > units) break;
    ChangeListEntry entry = {at * kUnitBytes, (at + length) * kUnitBytes};
    if (is_map) {
      entry.opaque = Below(random, 8) == 0;
      if (!entry.opaque) entry.physical = Below(random, uint64_t{1} << 50) * kUnitBytes;
    }
    entries.push_back(entry);
    at += length + (is_map && !entry.opaque && Below(random, 2) == 0 ? 0 : 1 + Below(random, 9));
  }
  return entries;
}

// Writes the file in one step, or in several of random length.
void Write(const std::string& path, ChangeListKind kind, const Entries& entries,
           const ListedSnapshot& target, const ListedSnapshot& base, Random* steps = nullptr) {
  Result<ChangeListWriter> writer = ChangeListWriter::Create(path + ".tmp", kind);
  ASSERT_OK(writer);
  for (const ChangeListEntry& entry : entries) {
    ASSERT_OK(writer->Add(entry));
    if (steps == nullptr || Below(steps, 300) != 0) continue;
    ASSERT_OK(writer->Flush());
    Result<ChangeListWriter> next =
        ChangeListWriter::Continue(path + ".tmp", kind, writer->progress());
    ASSERT_OK(next);
    ASSERT_OK(next->Flush());
    writer = std::move(next);
  }
  ASSERT_OK(writer->Flush());
  ASSERT_OK(writer->Publish(target, base, path));
}

// Everything from `offset` on; fails with the cursor.
Result<Entries> ReadFrom(const ChangeListFile& file, uint64_t offset, size_t pages_per_read) {
  ChangeListCursor cursor(&file, pages_per_read);
  Entries entries;
  Status status = cursor.Seek(offset);
  while (status.ok() && !cursor.at_end()) {
    entries.push_back(cursor.entry());
    status = cursor.Next();
  }
  if (!status.ok()) return status;
  return entries;
}

Result<Entries> ReadAll(const std::string& path) {
  Result<ChangeListFile> file = ChangeListFile::Open(path);
  RETURN_IF_ERROR(file);
  return ReadFrom(*file, 0, 4);
}

bool IsSame(const ChangeListEntry& left, const ChangeListEntry& right) {
  return left.start == right.start && left.end == right.end && left.physical == right.physical &&
         left.opaque == right.opaque;
}

bool Equal(const Entries& left, const Entries& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), IsSame);
}

class ChangeListTest : public InDirectory {
 protected:
  const std::string path_ = At("list");
};
class ChangeListUnionTest : public InDirectory {};

TEST_F(ChangeListTest, ReadsBackWhatWasWrittenFromAnyOffset) {
  Random random(Seed());
  for (const auto kind :
       {ChangeListKind::kDelta, ChangeListKind::kAllocated, ChangeListKind::kMap}) {
    for (int round = 0; round < 20; round++) {
      const Entries entries = RandomEntries(&random, kind, Below(&random, 5000), kUnits);
      const ListedSnapshot base = kind == ChangeListKind::kDelta ? Snapshot(1) : ListedSnapshot();
      Write(path_, kind, entries, Snapshot(2), base, &random);
      ASSERT_VALUE(file, ChangeListFile::Open(path_));
      EXPECT_EQ(file.head().kind, kind);
      EXPECT_EQ(file.head().entries, entries.size());
      EXPECT_TRUE(file.head().target == Snapshot(2) && file.head().base == base);
      for (int i = 0; i < 20; i++) {
        const uint64_t offset = i == 0 ? 0 : Below(&random, kSize);
        Entries expected;
        for (const auto& entry : entries) {
          if (entry.end > offset) expected.push_back(entry);
        }
        ASSERT_VALUE(found, ReadFrom(file, offset, 1 + Below(&random, 8)));
        ASSERT_TRUE(Equal(found, expected)) << "from " << offset;
      }
      EXPECT_FALSE(Exists(path_ + ".tmp"));
    }
  }
}

TEST_F(ChangeListTest, JoinsAdjacentRangesAndExtentsThatContinueOnTheDevice) {
  Write(path_, ChangeListKind::kAllocated, {{0, 4096}, {4096, 8192}}, Snapshot(1), {});
  ASSERT_VALUE(ranges, ReadAll(path_));
  EXPECT_TRUE(Equal(ranges, {{0, 8192}}));
  Write(path_, ChangeListKind::kMap,
        {{0, 4096, 1 << 20, false},
         {4096, 8192, (1 << 20) + 4096, false},
         {8192, 12288, 1 << 30, false},
         {12288, 16384, 0, true}},
        Snapshot(1), {});
  ASSERT_VALUE(extents, ReadAll(path_));
  EXPECT_TRUE(
      Equal(extents,
            {{0, 8192, 1 << 20, false}, {8192, 12288, 1 << 30, false}, {12288, 16384, 0, true}}));
}

TEST_F(ChangeListTest, RefusesEntriesThatAreEmptyOutOfOrderOrNotInUnits) {
  ASSERT_VALUE(writer, ChangeListWriter::Create(At("list"), ChangeListKind::kAllocated));
  EXPECT_CODE(writer.Add({4096, 4096}), "EINVAL");
  EXPECT_CODE(writer.Add({0, 4095}), "EINVAL");
  EXPECT_OK(writer.Add({4096, 8192}));
  EXPECT_CODE(writer.Add({0, 512}), "EINVAL");
  EXPECT_OK(writer.Flush());
  EXPECT_CODE(writer.Add({4096, 16384}), "EINVAL");
}

// A list of a few pages, as bytes.
std::vector<uint8_t> SomeList(const std::string& path) {
  Random random(7);
  const Entries entries = RandomEntries(&random, ChangeListKind::kDelta, 3000, kUnits);
  Write(path, ChangeListKind::kDelta, entries, Snapshot(2), Snapshot(1));
  return ReadBytes(path);
}

// Of reading the file, with these bytes.
std::string CodeOfBytes(const std::string& path, const std::vector<uint8_t>& bytes) {
  unlink(path.c_str());
  WriteBytes(path, 0, bytes);
  return CodeOf(ReadAll(path));
}

TEST_F(ChangeListTest, NeverBelievesAFileWithAChangedByte) {
  const std::vector<uint8_t> bytes = SomeList(path_);
  ASSERT_GE(bytes.size(), 3 * kPageBytes);
  for (size_t at = 0; at < bytes.size(); at += at < 256 ? 1 : 37) {
    std::vector<uint8_t> changed = bytes;
    changed[at] ^= static_cast<uint8_t>(1 + at % 255);
    ASSERT_EQ(CodeOfBytes(path_, changed), "LIST_INVALID") << "byte " << at;
  }
}

TEST_F(ChangeListTest, NeverBelievesATruncatedOrExtendedFile) {
  const std::vector<uint8_t> bytes = SomeList(path_);
  std::vector<size_t> sizes;
  for (size_t size = 0; size < bytes.size(); size += 1021) sizes.push_back(size);
  for (size_t size = kPageBytes; size <= bytes.size() + kPageBytes; size += kPageBytes) {
    if (size != bytes.size()) sizes.push_back(size);
  }
  for (const size_t size : sizes) {
    const auto resize = [&](auto* file) { file->resize(size); };
    ASSERT_EQ(CodeOfBytes(path_, With(bytes, resize)), "LIST_INVALID") << size << " bytes";
  }
}

TEST_F(ChangeListTest, NeverBelievesPagesInAnotherPlaceOrOfAnotherFile) {
  const std::vector<uint8_t> bytes = SomeList(path_);
  // The same entries, so that only its file id tells a page from this one.
  const std::vector<uint8_t> other = SomeList(At("other"));
  ASSERT_EQ(bytes.size(), other.size());
  const auto page = [](const std::vector<uint8_t>& from, size_t number) {
    const auto start = from.begin() + static_cast<ptrdiff_t>(number * kPageBytes);
    return std::vector<uint8_t>(start, start + kPageBytes);
  };
  const auto with = [&](size_t number, const std::vector<uint8_t>& replacement) {
    std::vector<uint8_t> changed = bytes;
    std::copy(replacement.begin(), replacement.end(),
              changed.begin() + static_cast<ptrdiff_t>(number * kPageBytes));
    return CodeOfBytes(path_, changed);
  };
  EXPECT_EQ(with(0, page(other, 0)), "LIST_INVALID");
  EXPECT_EQ(with(1, page(other, 1)), "LIST_INVALID");
  EXPECT_EQ(with(1, page(bytes, 2)), "LIST_INVALID");
  EXPECT_EQ(with(2, page(bytes, 1)), "LIST_INVALID");
  EXPECT_EQ(with(1, std::vector<uint8_t>(kPageBytes, 0)), "LIST_INVALID");
  EXPECT_EQ(with(1, page(bytes, 1)), "");
}

TEST_F(ChangeListTest, NeverTakesAnUnfinishedFileForAList) {
  ASSERT_VALUE(writer, ChangeListWriter::Create(path_, ChangeListKind::kAllocated));
  EXPECT_CODE(ReadAll(path_), "LIST_INVALID");
  EXPECT_OK(writer.Add({0, 4096}));
  EXPECT_OK(writer.Flush());
  EXPECT_CODE(ReadAll(path_), "LIST_INVALID");
  EXPECT_CODE(ReadAll(At("none")), "ENOENT");
}

TEST_F(ChangeListTest, ContinuesOnlyTheFileThatTheStepBeforeLeft) {
  ASSERT_VALUE(writer, ChangeListWriter::Create(path_, ChangeListKind::kAllocated));
  EXPECT_OK(writer.Add({0, 4096}));
  EXPECT_OK(writer.Flush());
  const ChangeListProgress progress = writer.progress();
  EXPECT_OK(ChangeListWriter::Continue(path_, ChangeListKind::kAllocated, progress));
  ASSERT_EQ(truncate(path_.c_str(), kPageBytes), 0);
  EXPECT_CODE(ChangeListWriter::Continue(path_, ChangeListKind::kAllocated, progress),
              "LIST_INVALID");
  unlink(path_.c_str());
  EXPECT_CODE(ChangeListWriter::Continue(path_, ChangeListKind::kAllocated, progress),
              "LIST_INVALID");
}

// The union by the slow way: one flag for each unit.
std::vector<Range> NaiveUnion(const std::vector<Entries>& lists, uint64_t size, uint64_t offset) {
  std::vector<bool> units(size / kUnitBytes);
  for (const Entries& list : lists) {
    for (const ChangeListEntry& entry : list) {
      for (uint64_t at = entry.start; at < std::min(entry.end, size); at += kUnitBytes) {
        units[at / kUnitBytes] = true;
      }
    }
  }
  std::vector<Range> ranges;
  for (uint64_t at = offset; at < size; at += kUnitBytes) {
    if (units[at / kUnitBytes]) AddRange(&ranges, at, kUnitBytes);
  }
  return ranges;
}

// Steps between snapshots of a volume that grows, and the request for their union.
struct RandomChain {
  RandomChain(const TempDirectory& directory, Random* random, size_t count, size_t most) {
    uint64_t units = 1000 + Below(random, 3000);
    for (size_t i = 0; i < count; i++) {
      const int number = static_cast<int>(i);
      const uint64_t before = units * kUnitBytes;
      if (Below(random, 3) == 0) units += Below(random, 500);
      lists.push_back(RandomEntries(random, ChangeListKind::kDelta, Below(random, most), units));
      request.paths.push_back(directory.At("list-" + std::to_string(i)));
      Write(request.paths.back(), ChangeListKind::kDelta, lists.back(),
            Snapshot(number + 1, units * kUnitBytes), Snapshot(number, before));
      if (i == 0) base = Snapshot(0, before);
    }
    target = Snapshot(static_cast<int>(count), units * kUnitBytes);
    request.base_id = base.id;
    request.target_id = target.id;
    request.size_bytes = units * kUnitBytes;
  }

  std::vector<Entries> lists;
  ChangeListRequest request;
  ListedSnapshot base;
  ListedSnapshot target;
};

TEST_F(ChangeListUnionTest, IsTheUnionOfAllListsFromAnyOffsetInAnyChunks) {
  Random random(Seed());
  for (int round = 0; round < 30; round++) {
    const RandomChain chain(directory_, &random, 1 + Below(&random, round == 0 ? 300 : 12), 300);
    const uint64_t size = chain.request.size_bytes;
    const auto call = [&](const FillLimits& limits, Span<uint8_t> buffer) {
      return FillFromLists(chain.request, limits, buffer);
    };
    const auto limits = [&] {
      return FillLimits{
          0, 0, 1 + Below(&random, 200), 1 + Below(&random, 50), 1 + Below(&random, 500), true};
    };
    for (int i = 0; i < 4; i++) {
      const uint64_t offset = i == 0 ? 0 : Below(&random, size / kUnitBytes + 1) * kUnitBytes;
      ASSERT_VALUE(scan, RunScan(call, size, offset, 4096, limits));
      ASSERT_EQ(scan.ranges, NaiveUnion(chain.lists, size, offset)) << "from " << offset;
    }
  }
}

TEST_F(ChangeListUnionTest, JoinedListsHaveTheSameUnionAndTheEndsOfBoth) {
  Random random(Seed());
  for (int round = 0; round < 30; round++) {
    const RandomChain chain(directory_, &random, 2 + Below(&random, 6), 2000);
    std::vector<std::string> paths = chain.request.paths;
    while (paths.size() > 1) {
      const size_t at = Below(&random, paths.size() - 1);
      const std::string newer = paths[at + 1];
      ASSERT_OK(JoinChangeLists({paths[at], newer, newer + ".tmp", newer}));
      unlink(paths[at].c_str());
      paths.erase(paths.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_VALUE(joined, ChangeListFile::Open(paths[0]));
    EXPECT_TRUE(joined.head().base == chain.base && joined.head().target == chain.target);
    ASSERT_VALUE(entries, ReadFrom(joined, 0, 4));
    std::vector<Range> ranges;
    for (const ChangeListEntry& entry : entries) {
      ranges.push_back({entry.start, entry.end - entry.start});
    }
    ASSERT_EQ(ranges, NaiveUnion(chain.lists, chain.request.size_bytes, 0));
  }
}

// Three lists from snapshot 0 to snapshot 3.
ChangeListRequest Chain(const TempDirectory& directory) {
  ChangeListRequest request;
  for (int i = 0; i < 3; i++) {
    request.paths.push_back(directory.At("step-" + std::to_string(i)));
    Write(request.paths.back(), ChangeListKind::kDelta, {{0, 4096}}, Snapshot(i + 1), Snapshot(i));
  }
  request.base_id = Snapshot(0).id;
  request.target_id = Snapshot(3).id;
  request.size_bytes = kSize;
  return request;
}

// Of answering the request, and of verifying that it can be answered.
std::string CodeOfUnion(const ChangeListRequest& request) {
  const std::string code = CodeOf(ScanLists(request));
  EXPECT_EQ(CodeOf(VerifyChangeLists(request)), code);
  return code;
}

TEST_F(ChangeListUnionTest, JoinsOnlyTwoStepsThatFollowEachOther) {
  const ChangeListRequest chain = Chain(directory_);
  const auto code_of_join = [&](const std::string& older, const std::string& newer) {
    return CodeOf(JoinChangeLists({older, newer, At("joined.tmp"), At("joined")}));
  };
  EXPECT_EQ(code_of_join(chain.paths[0], chain.paths[1]), "");
  unlink(At("joined").c_str());
  EXPECT_EQ(code_of_join(chain.paths[1], chain.paths[0]), "LIST_INVALID");
  EXPECT_EQ(code_of_join(chain.paths[0], chain.paths[2]), "LIST_INVALID");
  EXPECT_EQ(code_of_join(chain.paths[0] + "-gone", chain.paths[1]), "LIST_INVALID");
  // The same snapshot by name, and another file.
  ListedSnapshot other = Snapshot(1);
  other.file.change_time_ns++;
  Write(chain.paths[0], ChangeListKind::kDelta, {}, other, Snapshot(0));
  EXPECT_EQ(code_of_join(chain.paths[0], chain.paths[1]), "LIST_INVALID");
  Write(chain.paths[0], ChangeListKind::kAllocated, {}, Snapshot(1), {});
  EXPECT_EQ(code_of_join(chain.paths[0], chain.paths[1]), "LIST_INVALID");
  Write(chain.paths[0], ChangeListKind::kDelta, {{0, kUnitBytes}}, Snapshot(1), Snapshot(0));
  WriteBytes(chain.paths[0], kPageBytes + 100, {1});
  EXPECT_EQ(code_of_join(chain.paths[0], chain.paths[1]), "LIST_INVALID");
  EXPECT_FALSE(Exists(At("joined")));
}

TEST_F(ChangeListUnionTest, RefusesListsThatAreNoChainBetweenTheTwoSnapshots) {
  const ChangeListRequest request = Chain(directory_);
  EXPECT_EQ(CodeOfUnion(request), "");
  using Change = void (*)(ChangeListRequest*);
  for (const Change change : {Change([](auto* r) { std::swap(r->paths[0], r->paths[1]); }),
                              Change([](auto* r) { r->paths.erase(r->paths.begin() + 1); }),
                              Change([](auto* r) { r->paths.pop_back(); }),
                              Change([](auto* r) { r->paths[2] += "-gone"; }),
                              Change([](auto* r) { r->base_id = Snapshot(1).id; }),
                              Change([](auto* r) { r->base_id.clear(); }),
                              Change([](auto* r) { r->size_bytes += kUnitBytes; })}) {
    EXPECT_EQ(CodeOfUnion(With(request, change)), "LIST_INVALID");
  }
}

TEST_F(ChangeListUnionTest, RefusesAStepThatBeginsWithAnotherVersionOfTheSnapshotInBetween) {
  const ChangeListRequest request = Chain(directory_);
  ListedSnapshot changed = Snapshot(1);
  changed.file.change_time_ns++;
  Write(request.paths[1], ChangeListKind::kDelta, {}, Snapshot(2), changed);
  EXPECT_EQ(CodeOfUnion(request), "LIST_INVALID");
  Write(request.paths[1], ChangeListKind::kDelta, {}, Snapshot(2), Snapshot(1));
  EXPECT_EQ(CodeOfUnion(request), "");
}

// The bytes that the smaller snapshot lacks may differ, and no list of the chain says so.
TEST_F(ChangeListUnionTest, RefusesAStepToASmallerSnapshot) {
  const ChangeListRequest request = Chain(directory_);
  const ListedSnapshot smaller = Snapshot(1, kSize / 2);
  Write(request.paths[1], ChangeListKind::kDelta, {}, Snapshot(2), smaller);
  Write(request.paths[0], ChangeListKind::kDelta, {}, smaller, Snapshot(0, kSize / 2));
  EXPECT_EQ(CodeOfUnion(request), "");
  Write(request.paths[0], ChangeListKind::kDelta, {}, smaller, Snapshot(0));
  EXPECT_EQ(CodeOfUnion(request), "LIST_INVALID");
}

// A list that was read is retained in place of a snapshot, so it must have all that was written.
TEST_F(ChangeListUnionTest, VerifiesThatAListHasWhatItsHeadSays) {
  const ChangeListRequest request = Chain(directory_);
  ASSERT_VALUE(list, ChangeListFile::Open(request.paths[1]));
  const auto code_with = [&](void (*change)(ChangeListHead*)) {
    std::vector<uint8_t> page(kPageBytes);
    change_list::EncodeHead(With(list.head(), change), Span<uint8_t>(page.data(), page.size()));
    WriteBytes(request.paths[1], 0, page);
    return CodeOf(VerifyChangeLists(request));
  };
  EXPECT_EQ(code_with([](auto* head) { head->entries++; }), "LIST_INVALID");
  EXPECT_EQ(code_with([](auto* head) { head->entry_bytes += kUnitBytes; }), "LIST_INVALID");
  EXPECT_EQ(code_with([](auto* head) { head->entry_bytes -= kUnitBytes; }), "LIST_INVALID");
  EXPECT_EQ(code_with([](auto*) {}), "");
}

TEST_F(ChangeListUnionTest, RefusesADeviceThatIsDescribedAsAFile) {
  ListedSnapshot device = Snapshot(1);
  device.kind = ListedKind::kThinDevice;
  const auto code_with = [&](uint64_t inode, uint64_t change_time_ns) {
    device.file.inode = inode;
    device.file.change_time_ns = change_time_ns;
    Write(At("device"), ChangeListKind::kAllocated, {{0, 4096}}, device, {});
    return CodeOf(ReadAll(At("device")));
  };
  EXPECT_EQ(code_with(0, 0), "");
  EXPECT_EQ(code_with(1, 0), "LIST_INVALID");
  EXPECT_EQ(code_with(0, 1), "LIST_INVALID");
}

TEST_F(ChangeListUnionTest, RefusesAMapInPlaceOfAListAndTwoListsOfAllocatedRanges) {
  ChangeListRequest request;
  request.paths = {At("a"), At("b")};
  request.target_id = Snapshot(1).id;
  request.size_bytes = kSize;
  for (const std::string& path : request.paths) {
    Write(path, ChangeListKind::kAllocated, {{0, 4096}}, Snapshot(1), {});
  }
  EXPECT_EQ(CodeOfUnion(request), "LIST_INVALID");
  request.paths.pop_back();
  EXPECT_EQ(CodeOfUnion(request), "");
  Write(request.paths[0], ChangeListKind::kMap, {{0, 4096, 4096, false}}, Snapshot(1), {});
  EXPECT_EQ(CodeOfUnion(request), "LIST_INVALID");
}

}  // namespace
}  // namespace blockdelta::test
