#include "test/native/thin_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta::test {
namespace {

constexpr size_t kBlockBytes = 4096;

uint32_t SaltOf(BlockKind kind) {
  switch (kind) {
    case BlockKind::kSuperblock:
      return kSuperblockSalt;
    case BlockKind::kBitmap:
      return kBitmapSalt;
    case BlockKind::kIndex:
      return kIndexSalt;
    default:
      return kNodeSalt;
  }
}

}  // namespace

void Die(const std::string& what) {
  std::fprintf(stderr, "thin metadata: %s\n", what.c_str());
  std::exit(1);
}

uint32_t MaxEntries(uint32_t value_bytes) {
  return static_cast<uint32_t>((kBlockBytes - sizeof(DiskNode)) / (8 + value_bytes) / 3 * 3);
}

int DiskNode::Find(uint64_t key) {
  return static_cast<int>(std::upper_bound(keys(), keys() + entries, key) - keys()) - 1;
}

void DiskNode::Insert(uint32_t index, uint64_t key, uint64_t word) {
  std::memmove(keys() + index + 1, keys() + index, (entries - index) * 8);
  std::memmove(words() + index + 1, words() + index, (entries - index) * 8);
  keys()[index] = key;
  words()[index] = word;
  entries++;
}

void DiskNode::Remove(uint32_t index) {
  std::memmove(keys() + index, keys() + index + 1, (entries - index - 1) * 8);
  std::memmove(words() + index, words() + index + 1, (entries - index - 1) * 8);
  entries--;
}

ThinImage::ThinImage(uint64_t blocks, uint64_t data_blocks)
    : kinds_(blocks, BlockKind::kFree), references_(blocks), data_references_(data_blocks) {
  void* memory = mmap(nullptr, blocks * kBlockBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) Die("no memory for " + std::to_string(blocks) + " blocks");
  bytes_ = static_cast<uint8_t*>(memory);
  kinds_[0] = BlockKind::kSuperblock;
  references_[0] = 1;
}

ThinImage::ThinImage(ThinImage&& other) noexcept
    : bytes_(std::exchange(other.bytes_, nullptr)),
      kinds_(std::move(other.kinds_)),
      references_(std::move(other.references_)),
      data_references_(std::move(other.data_references_)),
      preferred_(std::move(other.preferred_)),
      next_number_(other.next_number_) {}

ThinImage::~ThinImage() {
  if (bytes_ != nullptr) munmap(bytes_, kinds_.size() * kBlockBytes);
}

uint64_t ThinImage::used_blocks() const {
  return kinds_.size() -
         static_cast<uint64_t>(std::count(kinds_.begin(), kinds_.end(), BlockKind::kFree));
}

void ThinImage::Prefer(std::vector<uint64_t> numbers) {
  for (const uint64_t number : numbers) next_number_ = std::max(next_number_, number + 1);
  preferred_ = std::move(numbers);
  std::reverse(preferred_.begin(), preferred_.end());
}

uint64_t ThinImage::Allocate(BlockKind kind) {
  uint64_t number;
  if (preferred_.empty()) {
    number = next_number_++;
  } else {
    number = preferred_.back();
    preferred_.pop_back();
  }
  if (number >= kinds_.size()) Die("more than " + std::to_string(kinds_.size()) + " blocks needed");
  references_[number] = 1;
  kinds_[number] = kind;
  std::memset(block(number), 0, kBlockBytes);
  return number;
}

uint64_t ThinImage::NewNode(bool is_leaf, uint32_t value_bytes) {
  const uint64_t number = Allocate(BlockKind::kNode);
  DiskNode* made = node(number);
  made->flags = is_leaf ? 2 : 1;
  made->number = number;
  made->max_entries = MaxEntries(value_bytes);
  made->value_bytes = value_bytes;
  return number;
}

void ThinImage::Free(uint64_t number) {
  references_[number] = 0;
  kinds_[number] = BlockKind::kFree;
}

void ThinImage::Seal(uint64_t number) {
  const uint32_t checksum = ChecksumOf(block(number), SaltOf(kinds_[number]));
  std::memcpy(block(number), &checksum, sizeof(checksum));
}

void ThinImage::SealAll() {
  for (uint64_t number = 0; number < kinds_.size(); number++) {
    if (kinds_[number] != BlockKind::kFree) Seal(number);
  }
}

void ThinImage::Save(const std::string& path) const {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool good = fd >= 0 && ftruncate(fd, static_cast<off_t>(kinds_.size() * kBlockBytes)) == 0;
  for (size_t begin = 0, end = 0; good && begin < kinds_.size(); begin = end) {
    // Used blocks go by the megabyte.
    const bool used = kinds_[begin] != BlockKind::kFree;
    for (end = begin + 1; end < kinds_.size() && end - begin < 256; end++) {
      if ((kinds_[end] != BlockKind::kFree) != used) break;
    }
    const size_t bytes = (end - begin) * kBlockBytes;
    if (used) {
      good = pwrite(fd, bytes_ + begin * kBlockBytes, bytes,
                    static_cast<off_t>(begin * kBlockBytes)) == static_cast<ssize_t>(bytes);
    }
  }
  if (!good || close(fd) != 0) Die("cannot write " + path);
}

}  // namespace blockdelta::test
