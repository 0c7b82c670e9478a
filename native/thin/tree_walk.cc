#include "native/thin/tree_walk.h"

#include <algorithm>
#include <utility>

#include "native/thin/block_source.h"
#include "native/thin/metadata_block.h"
#include "native/thin/thin_format.h"

namespace blockdelta {
namespace {

constexpr size_t kWindowNodes = 256;

struct Branch {
  uint64_t number;
  KeyRange keys;
};

class Walk {
 public:
  Walk(BlockSource* source, const TreeRoot& root, const WantedKeys& wanted, const EnterNode& enter,
       const VisitEntry& visit)
      : source_(source), root_(root), wanted_(wanted), enter_(enter), visit_(visit) {}

  Status Run() {
    std::vector<Branch> level;
    if (enter_(root_.number)) level.push_back({root_.number, root_.keys});
    for (unsigned height = 0; !level.empty() && !is_over_; height++) {
      if (height == kMaxTreeHeight) {
        return InvalidBlock(source_->path(), level[0].number,
                            "expected a tree of at most " + std::to_string(kMaxTreeHeight) +
                                " levels, found it below that");
      }
      std::vector<Branch> below;
      RETURN_IF_ERROR(ReadLevel(level, &below));
      level = std::move(below);
    }
    return Status();
  }

 private:
  Status ReadLevel(const std::vector<Branch>& level, std::vector<Branch>* below) {
    bool has_leaves = false;
    for (size_t begin = 0; begin < level.size() && !is_over_; begin += kWindowNodes) {
      const Span<const Branch> window(level.data() + begin,
                                      std::min(kWindowNodes, level.size() - begin));
      Status status = ReadWindow(window);
      for (size_t i = 0; status.ok() && i < window.size() && !is_over_; i++) {
        Result<NodeView> node = Check(window[i], i);
        RETURN_IF_ERROR(node);
        if (begin + i == 0) has_leaves = node->is_leaf();
        if (node->is_leaf() != has_leaves) {
          return InvalidBlock(source_->path(), window[i].number,
                              has_leaves ? "expected a leaf as before it, found an internal node"
                                         : "expected an internal node as before it, found a leaf");
        }
        Take(*node, window[i], below);
      }
      if (!status.ok()) return status;
    }
    return Status();
  }

  Status ReadWindow(Span<const Branch> window) {
    if (buffer_.blocks() < window.size()) buffer_ = BlockBuffer(window.size());
    numbers_.clear();
    for (const Branch& branch : window) numbers_.push_back(branch.number);
    return source_->Read(Span<const uint64_t>(numbers_.data(), numbers_.size()), buffer_.data());
  }

  Result<NodeView> Check(const Branch& branch, size_t index) {
    const NodeExpectation expected = {branch.number, branch.keys, root_.value_bytes,
                                      source_->block_count()};
    return CheckNode(buffer_.block(index), expected, source_->path());
  }

  void Take(const NodeView& node, const Branch& branch, std::vector<Branch>* below) {
    for (uint32_t i = 0; i < node.count() && !is_over_; i++) {
      if (node.is_leaf()) {
        if (wanted_.Has(node.key(i))) is_over_ = !visit_(node.key(i), node.value_bytes(i));
        continue;
      }
      const KeyRange keys = node.ChildRange(i, branch.keys);
      if (wanted_.Touch(keys) && enter_(node.value(i))) below->push_back({node.value(i), keys});
    }
  }

  BlockSource* source_;
  const TreeRoot& root_;
  const WantedKeys& wanted_;
  const EnterNode& enter_;
  const VisitEntry& visit_;
  BlockBuffer buffer_;
  std::vector<uint64_t> numbers_;
  bool is_over_ = false;
};

}  // namespace

WantedKeys WantedKeys::Only(std::vector<uint64_t> keys) {
  WantedKeys wanted;
  wanted.is_all_ = false;
  wanted.keys_ = std::move(keys);
  std::sort(wanted.keys_.begin(), wanted.keys_.end());
  return wanted;
}

bool WantedKeys::Has(uint64_t key) const {
  return is_all_ || std::binary_search(keys_.begin(), keys_.end(), key);
}

bool WantedKeys::Touch(KeyRange range) const {
  if (is_all_) return true;
  const auto first = std::lower_bound(keys_.begin(), keys_.end(), range.low);
  return first != keys_.end() && *first < range.high;
}

Status WalkTree(BlockSource* source, const TreeRoot& root, const WantedKeys& wanted,
                const VisitEntry& visit) {
  const EnterNode always = [](uint64_t) { return true; };
  return Walk(source, root, wanted, always, visit).Run();
}

Status WalkNodes(BlockSource* source, const TreeRoot& root, const EnterNode& enter,
                 const VisitEntry& visit) {
  return Walk(source, root, WantedKeys::All(), enter, visit).Run();
}

}  // namespace blockdelta
