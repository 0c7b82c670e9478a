#include "native/thin/tree_level.h"

#include <algorithm>
#include <utility>

#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

// Number of entries of a node with keys below `key`.
uint32_t CountBelow(const NodeView& view, uint64_t key) {
  const uint32_t found = view.Find(key);
  if (found == view.count()) return 0;
  return view.key(found) == key ? found : found + 1;
}

}  // namespace

Status MappingReader::Read(Span<const uint64_t> blocks, uint8_t* out) {
  nodes_ += blocks.size();
  return source_->Read(blocks, out);
}

Result<NodeView> MappingReader::Check(const Subtree& subtree, const uint8_t* block) const {
  const NodeExpectation expected = {subtree.block, subtree.keys, kMappingValueBytes,
                                    source_->block_count()};
  Result<NodeView> view = CheckNode(block, expected, source_->path());
  if (!view.ok() || !view->is_leaf() || data_blocks_ == 0) return view;
  uint64_t highest = 0;
  for (uint32_t i = 0; i < view->count(); i++) highest = std::max(highest, view->value(i));
  if (highest >> kMappingTimeBits >= data_blocks_) {
    return Invalid(subtree.block, "expected data blocks below " + std::to_string(data_blocks_) +
                                      ", found " + std::to_string(highest >> kMappingTimeBits));
  }
  return view;
}

ValuePart MappingReader::data_block_part() const {
  const uint64_t highest = data_blocks_ == 0 ? UINT64_MAX >> kMappingTimeBits : data_blocks_ - 1;
  return {kMappingTimeBits / 8, BytesFor(highest)};
}

Status MappingReader::Invalid(uint64_t block, const std::string& what) const {
  return InvalidBlock(source_->path(), block, what);
}

LevelNode ClipNode(const NodeView& view, KeyRange keys, KeyRange range) {
  LevelNode node = {view, keys, 0, view.count(), nullptr};
  if (keys.high > range.high) node.end = CountBelow(view, range.high);
  if (keys.low >= range.low) return node;
  if (view.is_leaf()) {
    node.entry = CountBelow(view, range.low);
  } else {
    const uint32_t child = view.Find(range.low);
    node.entry = child == view.count() ? 0 : child;
  }
  return node;
}

void NodeQueue::SkipFinished() {
  while (!drained() && front().entry >= front().end) front_++;
  if (drained() || front().packed == nullptr) return;
  if (unpacked_.blocks() == 0) unpacked_ = BlockBuffer(1);
  front().view = UnpackNode(front().packed, unpacked_.data());
}

void NodeQueue::Compact() {
  nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(front_));
  front_ = 0;
}

void TreeLevel::Want(const Subtree& subtree, unsigned sides) {
  wanted_.push_back({subtree, sides, {}});
  packed_bytes_ += MaxPackedBytes(subtree.keys, part()) + sizeof(Wanted) + sizeof(LevelNode);
}

// Copies the unfinished nodes out of the buffers of the last batch. One or two are unfinished: all
// others of a batch precede the node that made the walk request the next batch.
void TreeLevel::KeepUnfinished() {
  size_t count = 0;
  for (NodeQueue& queue : sides_) {
    queue.Compact();
    count += queue.nodes().size();
  }
  BlockBuffer block(1);
  std::vector<uint8_t> kept(count * kMetadataBlockBytes + kPackedSlack);
  uint8_t* to = kept.data();
  for (NodeQueue& queue : sides_) {
    for (LevelNode& node : queue.nodes()) {
      if (node.packed != nullptr) node.view = UnpackNode(node.packed, block.data());
      node.packed = to;
      to = PackNode(node.view, ValuePart(), to);
    }
    queue.SkipFinished();
  }
  kept_ = std::move(kept);
}

Status TreeLevel::Load() {
  KeepUnfinished();
  for (Wanted& wanted : wanted_) {
    for (unsigned side = 0; side < kSides; side++) {
      if ((wanted.sides >> side & 1) == 0) continue;
      wanted.places[side] = static_cast<uint32_t>(sides_[side].nodes().size());
      sides_[side].Push(LevelNode());
    }
  }
  std::sort(wanted_.begin(), wanted_.end(),
            [](const Wanted& a, const Wanted& b) { return a.subtree.block < b.subtree.block; });
  packed_.reset();
  const size_t limit = reader_->limits().raw_nodes;
  if (wanted_.size() > limit) packed_.reset(new uint8_t[packed_bytes_ + kPackedSlack]);
  if (raw_.blocks() < std::min(limit, wanted_.size())) {
    raw_ = BlockBuffer(std::min(limit, wanted_.size()));
  }
  uint8_t* packed = packed_.get();
  for (size_t i = 0; i < wanted_.size(); i += limit) {
    const size_t count = std::min(limit, wanted_.size() - i);
    RETURN_IF_ERROR(LoadBatch({wanted_.data() + i, count}, &packed));
  }
  for (NodeQueue& queue : sides_) queue.SkipFinished();
  loaded_ += wanted_.size();
  wanted_.clear();
  packed_bytes_ = 0;
  return Status();
}

// Packs the nodes to `*packed`, unless that is null, and advances it.
Status TreeLevel::LoadBatch(Span<const Wanted> batch, uint8_t** packed) {
  std::vector<uint64_t> blocks;
  for (const Wanted& wanted : batch) blocks.push_back(wanted.subtree.block);
  RETURN_IF_ERROR(reader_->Read({blocks.data(), blocks.size()}, raw_.data()));
  for (size_t i = 0; i < batch.size(); i++) {
    const Wanted& wanted = batch[i];
    Result<NodeView> view = reader_->Check(wanted.subtree, raw_.block(i));
    RETURN_IF_ERROR(view);
    RETURN_IF_ERROR(CheckDepth(*view, wanted.subtree.block));
    LevelNode node = ClipNode(*view, wanted.subtree.keys, range_);
    if (*packed != nullptr) {
      node.packed = *packed;
      *packed = PackNode(*view, part(), *packed);
    }
    for (unsigned side = 0; side < kSides; side++) {
      if ((wanted.sides >> side & 1) != 0) sides_[side].nodes()[wanted.places[side]] = node;
    }
  }
  return Status();
}

Status TreeLevel::Adopt(const LevelNode& node, const uint8_t* block, unsigned side) {
  RETURN_IF_ERROR(CheckDepth(node.view, ReadLe64(block + kOwnNumberOffset)));
  if (node.entry >= node.end) return Status();
  sides_[side].Push(node);
  KeepUnfinished();
  loaded_++;
  return Status();
}

// All leaves of a tree have the same depth.
Status TreeLevel::CheckDepth(const NodeView& view, uint64_t block) {
  if (!is_leaf_.has_value()) is_leaf_ = view.is_leaf();
  if (*is_leaf_ == view.is_leaf()) return Status();
  return reader_->Invalid(block, std::string("expected ") +
                                     (*is_leaf_ ? "a leaf" : "an internal node") +
                                     ", as the other nodes of its level are, found the other kind");
}

}  // namespace blockdelta
