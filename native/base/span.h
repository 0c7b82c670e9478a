// A view of consecutive elements owned by someone else; valid as long as they are.
#ifndef BLOCKDELTA_NATIVE_BASE_SPAN_H_
#define BLOCKDELTA_NATIVE_BASE_SPAN_H_

#include <cstddef>

namespace blockdelta {

template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  // REQUIRES: index < size().
  constexpr T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace blockdelta

#endif  // BLOCKDELTA_NATIVE_BASE_SPAN_H_
