// raw_stream serve|read SOCKET ...: the synthetic list over a plain Unix socket, without gRPC.
//
// The peer of the throughput row: the bytes of the same messages, each behind the five bytes that
// gRPC puts before it, encoded into one buffer and written. `read SOCKET ENTRIES PER_MESSAGE`
// discards them and prints one line of JSON with the bytes and the microseconds.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "synthetic_list.h"

namespace {

struct Request {
  uint64_t entries;
  uint64_t per_message;
};

// Two fields of ten bytes at most, with tags and a length.
constexpr size_t kMaxEntryBytes = 24;
constexpr size_t kFrameBytes = 5;
constexpr size_t kReadBytes = 256 << 10;

[[noreturn]] void Fail(const char* what) {
  perror(what);
  exit(1);
}

uint8_t* PutVarint(uint8_t* at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<uint8_t>(value) | 0x80;
  *at++ = static_cast<uint8_t>(value);
  return at;
}

// The frame of the entries [first, end). Returns its size.
size_t Encode(uint64_t first, uint64_t end, uint64_t capacity, uint8_t* frame) {
  constexpr uint8_t kVariableLength = 2;
  uint8_t* at = frame + kFrameBytes;
  *at++ = 0x08;
  *at++ = kVariableLength;
  *at++ = 0x10;
  at = PutVarint(at, capacity);
  for (uint64_t entry = first; entry < end; ++entry) {
    *at++ = 0x1a;
    uint8_t* const length = at++;
    if (entry != 0) {
      *at++ = 0x08;
      at = PutVarint(at, entry * blockdelta_bench::kStrideBytes);
    }
    *at++ = 0x10;
    at = PutVarint(at, blockdelta_bench::kExtentBytes);
    *length = static_cast<uint8_t>(at - length - 1);
  }
  const size_t size = at - frame - kFrameBytes;
  frame[0] = 0;
  for (int byte = 0; byte < 4; ++byte) {
    frame[1 + byte] = static_cast<uint8_t>(size >> (8 * (3 - byte)));
  }
  return size + kFrameBytes;
}

bool WriteAll(int fd, const uint8_t* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = send(fd, bytes, size, MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes += written;
    size -= written;
  }
  return true;
}

sockaddr_un Address(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  return address;
}

void Serve(int fd) {
  Request request;
  if (read(fd, &request, sizeof(request)) != sizeof(request) || request.per_message == 0) return;
  std::vector<uint8_t> frame(kFrameBytes + 16 + request.per_message * kMaxEntryBytes);
  const uint64_t capacity = blockdelta_bench::CapacityOf(request.entries);
  for (uint64_t first = 0; first < request.entries; first += request.per_message) {
    const uint64_t end = std::min(first + request.per_message, request.entries);
    if (!WriteAll(fd, frame.data(), Encode(first, end, capacity, frame.data()))) return;
  }
}

// Serves one client after the other until the benchmark ends it.
int ServeAll(const char* path) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(path);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Fail("bind");
  }
  if (listen(listener, 1) != 0) Fail("listen");
  printf("serving\n");
  fflush(stdout);
  for (;;) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) Fail("accept");
    Serve(fd);
    close(fd);
  }
}

int ReadAll(const char* path, const Request& request) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(path);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    Fail("connect");
  }
  std::vector<uint8_t> buffer(kReadBytes);
  const auto start = std::chrono::steady_clock::now();
  if (write(fd, &request, sizeof(request)) != sizeof(request)) Fail("write");
  uint64_t bytes = 0;
  for (ssize_t received; (received = read(fd, buffer.data(), buffer.size())) > 0;) {
    bytes += received;
  }
  const auto taken = std::chrono::steady_clock::now() - start;
  printf(
      "{\"bytes\":%" PRIu64 ",\"totalUs\":%" PRId64 "}\n", bytes,
      static_cast<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(taken).count()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0) return ServeAll(argv[2]);
  if (argc == 5 && strcmp(argv[1], "read") == 0) {
    return ReadAll(argv[2], {strtoull(argv[3], nullptr, 10), strtoull(argv[4], nullptr, 10)});
  }
  fprintf(stderr, "usage: raw_stream serve SOCKET | raw_stream read SOCKET ENTRIES PER_MESSAGE\n");
  return 2;
}
