#include "native/thin/btree_node.h"

#include <algorithm>
#include <cstring>

#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

using namespace node_format;

// The sizes in the header; valid only after CheckLayout.
struct Layout {
  explicit Layout(const uint8_t* block)
      : flags(ReadLe32(block + kFlags)),
        entries(ReadLe32(block + kEntries)),
        max_entries(ReadLe32(block + kMaxEntries)),
        value_bytes(ReadLe32(block + kValueBytes)) {}

  bool is_leaf() const { return flags == kLeafFlag; }

  uint32_t flags;
  uint32_t entries;
  uint32_t max_entries;
  uint32_t value_bytes;
};

Status CheckLayout(const Layout& layout, const NodeExpectation& expected, const std::string& path) {
  const auto invalid = [&](const std::string& what) {
    return InvalidBlock(path, expected.number, what);
  };
  if (layout.flags != kInternalFlag && layout.flags != kLeafFlag) {
    return invalid("expected a node with flags 1 (internal) or 2 (leaf), found flags " +
                   std::to_string(layout.flags));
  }
  const uint32_t value_bytes = layout.is_leaf() ? expected.leaf_value_bytes : kChildBytes;
  if (layout.value_bytes != value_bytes) {
    return invalid("expected values of " + std::to_string(value_bytes) + " bytes in " +
                   (layout.is_leaf() ? "a leaf" : "an internal node") + ", found values of " +
                   std::to_string(layout.value_bytes));
  }
  const uint64_t room = (kMetadataBlockBytes - kHeaderBytes) / (kKeyBytes + value_bytes);
  if (layout.max_entries > room) {
    return invalid("expected room for at most " + std::to_string(room) + " entries, found " +
                   std::to_string(layout.max_entries));
  }
  if (layout.entries > layout.max_entries) {
    return invalid("expected at most " + std::to_string(layout.max_entries) + " entries, found " +
                   std::to_string(layout.entries));
  }
  if (layout.entries == 0 && !(layout.is_leaf() && expected.keys.low == 0)) {
    return invalid("expected entries, as in every node but the only one of a tree, found none");
  }
  return Status();
}

// Describes the key that CheckKeys rejected.
Status DescribeKeys(const NodeView& node, const NodeExpectation& expected,
                    const std::string& path) {
  for (uint32_t i = 0; i < node.count(); i++) {
    const uint64_t low = i == 0 ? expected.keys.low : node.key(i - 1) + 1;
    if (node.key(i) >= low && node.key(i) < expected.keys.high) continue;
    return InvalidBlock(path, expected.number,
                        "expected key " + std::to_string(i) + " from " + std::to_string(low) +
                            " to below " + std::to_string(expected.keys.high) + ", found " +
                            std::to_string(node.key(i)));
  }
  return InvalidBlock(path, expected.number, "its keys are not in ascending order");
}

Status CheckKeys(const NodeView& node, const NodeExpectation& expected, const std::string& path) {
  const uint32_t count = node.count();
  if (count == 0) return Status();
  // Branch-free: this loop visits every key of every node of a scan.
  uint32_t falls = 0;
  for (uint32_t i = 1; i < count; i++) falls += node.key(i - 1) >= node.key(i) ? 1 : 0;
  if (falls == 0 && node.key(0) >= expected.keys.low && node.key(count - 1) < expected.keys.high) {
    return Status();
  }
  return DescribeKeys(node, expected, path);
}

Status CheckChildren(const NodeView& node, const NodeExpectation& expected,
                     const std::string& path) {
  for (uint32_t i = 0; i < node.count(); i++) {
    const uint64_t child = node.value(i);
    if (child != 0 && child < expected.block_count && child != expected.number) continue;
    return InvalidBlock(
        path, expected.number,
        "expected child " + std::to_string(i) + " to be another block from 1 to below " +
            std::to_string(expected.block_count) + ", found " + std::to_string(child));
  }
  return Status();
}

// What a packed node starts with. Its keys follow, less the first one, then its values.
struct PackedHead {
  uint64_t first_key;
  uint16_t count;
  uint8_t is_leaf;
  uint8_t key_bytes;
  uint8_t value_bytes;
  uint8_t value_shift;
};

uint64_t MaskOf(uint32_t bytes) { return UINT64_MAX >> (8 * (sizeof(uint64_t) - bytes)); }

}  // namespace

NodeView::NodeView(const uint8_t* block)
    : keys_(block + kHeaderBytes),
      values_(keys_ + kKeyBytes * ReadLe32(block + kMaxEntries)),
      count_(ReadLe32(block + kEntries)),
      value_bytes_(ReadLe32(block + kValueBytes)),
      is_leaf_(ReadLe32(block + kFlags) == kLeafFlag) {}

KeyRange NodeView::ChildRange(uint32_t index, KeyRange own) const {
  return {key(index), index + 1 < count_ ? key(index + 1) : own.high};
}

uint32_t NodeView::Find(uint64_t wanted) const {
  uint32_t low = 0;
  uint32_t high = count_;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (key(middle) <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? count_ : low - 1;
}

Result<NodeView> CheckNode(const uint8_t* block, const NodeExpectation& expected,
                           const std::string& path) {
  Status status = CheckBlock(block, expected.number, kNodeSalt, "a btree node", path);
  if (!status.ok()) return status;
  const Layout layout(block);
  status = CheckLayout(layout, expected, path);
  if (!status.ok()) return status;
  const NodeView node(block);
  status = CheckKeys(node, expected, path);
  if (!status.ok()) return status;
  if (!layout.is_leaf()) status = CheckChildren(node, expected, path);
  if (!status.ok()) return status;
  return node;
}

uint32_t BytesFor(uint64_t highest) {
  uint32_t bytes = 1;
  while (bytes < sizeof(highest) && highest >> (8 * bytes) != 0) bytes++;
  return bytes;
}

size_t MaxPackedBytes(KeyRange keys, ValuePart part) {
  constexpr uint64_t kMost = (kMetadataBlockBytes - kHeaderBytes) / (kKeyBytes + kChildBytes);
  const uint64_t last = keys.high - keys.low - 1;
  return sizeof(PackedHead) + (std::min(last, kMost - 1) + 1) * (BytesFor(last) + part.bytes);
}

// Each number is written with 8 bytes; the next one overwrites those that it does not need.
uint8_t* PackNode(const NodeView& node, ValuePart part, uint8_t* to) {
  PackedHead head = {};
  head.count = static_cast<uint16_t>(node.count());
  head.is_leaf = node.is_leaf() ? 1 : 0;
  if (head.count > 0) head.first_key = node.key(0);
  const uint64_t last = head.count == 0 ? 0 : node.key(head.count - 1) - head.first_key;
  head.key_bytes = static_cast<uint8_t>(BytesFor(last));
  head.value_bytes = static_cast<uint8_t>(part.bytes);
  head.value_shift = static_cast<uint8_t>(8 * part.first);
  std::memcpy(to, &head, sizeof(head));
  to += sizeof(head);
  for (uint32_t i = 0; i < head.count; i++, to += head.key_bytes) {
    WriteLe64(to, node.key(i) - head.first_key);
  }
  for (uint32_t i = 0; i < head.count; i++, to += head.value_bytes) {
    WriteLe64(to, node.value(i) >> head.value_shift);
  }
  return to;
}

NodeView UnpackNode(const uint8_t* packed, uint8_t* block) {
  PackedHead head;
  std::memcpy(&head, packed, sizeof(head));
  packed += sizeof(head);
  WriteLe32(block + kFlags, head.is_leaf != 0 ? kLeafFlag : kInternalFlag);
  WriteLe32(block + kEntries, head.count);
  WriteLe32(block + kMaxEntries, head.count);
  WriteLe32(block + kValueBytes, kChildBytes);
  uint8_t* to = block + kHeaderBytes;
  const uint64_t key_mask = MaskOf(head.key_bytes);
  for (uint32_t i = 0; i < head.count; i++, packed += head.key_bytes, to += kKeyBytes) {
    WriteLe64(to, head.first_key + (ReadLe64(packed) & key_mask));
  }
  const uint64_t value_mask = MaskOf(head.value_bytes);
  for (uint32_t i = 0; i < head.count; i++, packed += head.value_bytes, to += kChildBytes) {
    WriteLe64(to, (ReadLe64(packed) & value_mask) << head.value_shift);
  }
  return NodeView(block);
}

}  // namespace blockdelta
