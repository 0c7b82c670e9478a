#include "native/thin/tree_level.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

// Spare slots of a grown buffer, for nodes that stay in use.
constexpr size_t kSpareSlots = 4;

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

Status MappingReader::Invalid(uint64_t block, const std::string& what) const {
  return InvalidBlock(source_->path(), block, what);
}

LevelNode ClipNode(const NodeView& view, KeyRange keys, KeyRange range) {
  LevelNode node = {view, keys, 0, view.count(), 0};
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

void NodeQueue::Compact() {
  nodes_.erase(nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(front_));
  front_ = 0;
}

// Moves unfinished nodes to the start of a buffer with room for the wanted nodes. One or two are
// unfinished: all others of a batch precede the node that made the walk request the next batch.
void TreeLevel::MakeRoom() {
  std::vector<LevelNode*> unfinished;
  for (NodeQueue& queue : sides_) {
    queue.Compact();
    for (LevelNode& node : queue.nodes()) unfinished.push_back(&node);
  }
  std::sort(unfinished.begin(), unfinished.end(),
            [](const LevelNode* a, const LevelNode* b) { return a->slot < b->slot; });
  BlockBuffer grown;
  const size_t needed = unfinished.size() + wanted_.size();
  if (needed > buffer_.blocks()) grown = BlockBuffer(needed + kSpareSlots);
  BlockBuffer& to = grown.blocks() > 0 ? grown : buffer_;
  used_ = 0;
  // Both sides may hold the same node.
  const LevelNode* before = nullptr;
  size_t before_slot = 0;
  for (LevelNode* node : unfinished) {
    if (before == nullptr || node->slot != before_slot) {
      std::memmove(to.block(used_), buffer_.block(node->slot), kMetadataBlockBytes);
      used_++;
    }
    before = node;
    before_slot = node->slot;
    node->slot = used_ - 1;
    node->view = NodeView(to.block(node->slot));
  }
  if (grown.blocks() > 0) buffer_ = std::move(grown);
}

Status TreeLevel::Load() {
  MakeRoom();
  Status status =
      reader_->Read(Span<const uint64_t>(blocks_.data(), blocks_.size()), buffer_.block(used_));
  if (!status.ok()) return status;
  for (const Wanted& wanted : wanted_) {
    const size_t slot = used_++;
    Result<NodeView> view = reader_->Check(wanted.subtree, buffer_.block(slot));
    RETURN_IF_ERROR(view);
    status = CheckDepth(*view, wanted.subtree.block);
    if (!status.ok()) return status;
    LevelNode node = ClipNode(*view, wanted.subtree.keys, range_);
    node.slot = slot;
    for (unsigned side = 0; side < kSides; side++) {
      if ((wanted.sides >> side & 1) != 0) sides_[side].Push(node);
    }
  }
  loaded_ += wanted_.size();
  wanted_.clear();
  blocks_.clear();
  return Status();
}

Status TreeLevel::Adopt(const LevelNode& node, const uint8_t* block, unsigned side) {
  Status status = CheckDepth(node.view, ReadLe64(block + kOwnNumberOffset));
  if (!status.ok() || node.entry >= node.end) return status;
  if (buffer_.blocks() == 0) buffer_ = BlockBuffer(kSpareSlots);
  LevelNode adopted = node;
  adopted.slot = used_++;
  std::memcpy(buffer_.block(adopted.slot), block, kMetadataBlockBytes);
  adopted.view = NodeView(buffer_.block(adopted.slot));
  sides_[side].Push(adopted);
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
