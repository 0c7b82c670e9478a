#include "native/thin/run_reader.h"

#include <pthread.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "native/base/posix.h"
#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"

namespace blockdelta {
namespace {

// A block to read.
struct Wanted {
  uint64_t number;
  uint8_t* to;
};

// Blocks to read with one call, in ascending order: adjacent, or with short gaps.
using Run = Span<const Wanted>;

off_t PositionOf(uint64_t number) { return static_cast<off_t>(number * kMetadataBlockBytes); }

Result<std::vector<Wanted>> Sort(const BlockFile& file, Span<const uint64_t> numbers,
                                 uint8_t* out) {
  std::vector<Wanted> wanted;
  wanted.reserve(numbers.size());
  for (size_t i = 0; i < numbers.size(); i++) {
    if (numbers[i] >= file.block_count) {
      return InvalidBlock(file.path, numbers[i],
                          file.block_count == 0
                              ? "the file is smaller than a block of metadata, 4096 bytes"
                              : "expected to be one of the " + std::to_string(file.block_count) +
                                    " blocks there are");
    }
    wanted.push_back({numbers[i], out + i * kMetadataBlockBytes});
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return a.number < b.number; });
  return wanted;
}

uint64_t GapBetween(const Wanted& before, const Wanted& next) {
  return next.number - before.number - 1;
}

// Whether the call that reads `first` to `before` can read `next` too. A call cannot read a block
// twice.
bool CanJoin(const Wanted& first, const Wanted& before, const Wanted& next, uint64_t max_gap) {
  return next.number > before.number && GapBetween(before, next) <= max_gap &&
         next.number - first.number < kMaxRunBlocks;
}

std::vector<Run> Join(const std::vector<Wanted>& wanted, uint64_t max_gap) {
  std::vector<Run> runs;
  for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
    end = begin + 1;
    while (end < wanted.size() && CanJoin(wanted[begin], wanted[end - 1], wanted[end], max_gap)) {
      end++;
    }
    runs.push_back(Run(wanted.data() + begin, end - begin));
  }
  return runs;
}

// Returns the bytes read, those of gaps included, -1 with errno, or 0 at the end of the file.
// `unwanted` has room for the longest gap and receives the content of gaps.
ssize_t ReadOnce(int fd, Run run, BlockBuffer* unwanted) {
  if (run.size() == 1) {
    return RetryInterrupted(
        [&] { return pread(fd, run[0].to, kMetadataBlockBytes, PositionOf(run[0].number)); });
  }
  std::array<struct iovec, 2 * kMaxRunBlocks> buffers;
  size_t count = 0;
  for (size_t i = 0; i < run.size(); i++) {
    const uint64_t gap = i == 0 ? 0 : GapBetween(run[i - 1], run[i]);
    if (gap > 0) buffers[count++] = {unwanted->data(), gap * kMetadataBlockBytes};
    buffers[count++] = {run[i].to, kMetadataBlockBytes};
  }
  return RetryInterrupted([&] {
    return preadv(fd, buffers.data(), static_cast<int>(count), PositionOf(run[0].number));
  });
}

Status ReadAlone(const BlockFile& file, const Wanted& wanted) {
  const ssize_t bytes = ReadOnce(file.fd, Run(&wanted, 1), nullptr);
  if (bytes == -1) {
    return Status::Errno(errno, "pread", file.path, "block " + std::to_string(wanted.number));
  }
  if (static_cast<size_t>(bytes) == kMetadataBlockBytes) return Status();
  return InvalidBlock(file.path, wanted.number,
                      "expected 4096 bytes, found " + std::to_string(bytes) +
                          ": the metadata is shorter than when it was opened");
}

// Reads the blocks missing from a joined read one by one: a failure then names its block, and a
// short read only costs time.
Status ReadRun(const BlockFile& file, Run run, BlockBuffer* unwanted) {
  const ssize_t bytes = ReadOnce(file.fd, run, unwanted);
  const size_t whole = bytes <= 0 ? 0 : static_cast<size_t>(bytes) / kMetadataBlockBytes;
  for (const Wanted& wanted : run) {
    if (wanted.number - run[0].number < whole) continue;
    RETURN_IF_ERROR(ReadAlone(file, wanted));
  }
  return Status();
}

// The state shared by the threads of one call.
class Work {
 public:
  Work(const BlockFile& file, const std::vector<Run>& runs) : file_(file), runs_(runs) {}

  // Reads runs until there are no more, or one fails.
  void Do() {
    BlockBuffer unwanted;
    if (file_.max_gap > 0) unwanted = BlockBuffer(file_.max_gap);
    for (;;) {
      const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= runs_.size()) return;
      Status status = ReadRun(file_, runs_[index], &unwanted);
      if (status.ok()) continue;
      next_.store(runs_.size(), std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
    }
  }

  // REQUIRES: all threads have ended.
  Status TakeStatus() { return std::move(status_); }

 private:
  const BlockFile& file_;
  const std::vector<Run>& runs_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  Status status_;
};

void* DoWork(void* work) {
  static_cast<Work*>(work)->Do();
  return nullptr;
}

}  // namespace

Status ReadBlocks(const BlockFile& file, Span<const uint64_t> numbers, unsigned threads,
                  uint8_t* out) {
  Result<std::vector<Wanted>> wanted = Sort(file, numbers, out);
  RETURN_IF_ERROR(wanted);
  const std::vector<Run> runs = Join(*wanted, file.max_gap);
  Work work(file, runs);
  // If a thread cannot be created, fewer threads do the work. std::thread would throw.
  std::vector<pthread_t> others;
  for (size_t i = 1; i < std::min<size_t>(threads, runs.size()); i++) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, DoWork, &work) != 0) break;
    others.push_back(thread);
  }
  work.Do();
  for (const pthread_t thread : others) pthread_join(thread, nullptr);
  return work.TakeStatus();
}

}  // namespace blockdelta
