// grpc_stream_client SOCKET: reads server streams and discards what it receives.
//
// Each line on stdin is one call, `METHOD REQUEST PAUSE DECODE PID`: the full method name, the
// request as hexadecimal bytes, microseconds to wait after each message, 1 to decode the entries or
// 0, and the server's process or 0. Each answer is one line of JSON: messages, bytes, microseconds
// to the first and to the last message, the CPU time that PID used meanwhile, and with DECODE the
// number of entries and a checksum of them. All calls share one connection.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Entries {
  uint64_t count = 0;
  uint64_t checksum = 0xcbf29ce484222325;  // FNV-1a over offsets and sizes.

  void Add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      checksum = (checksum ^ ((value >> shift) & 0xff)) * 0x100000001b3;
    }
  }
};

uint64_t Varint(const uint8_t** at, const uint8_t* end) {
  uint64_t value = 0;
  for (int shift = 0; *at < end && shift < 64; shift += 7) {
    const uint8_t byte = *(*at)++;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// Reads GetMetadataAllocatedResponse and GetMetadataDeltaResponse, whose fields have equal numbers.
void Decode(const grpc::ByteBuffer& buffer, Entries* entries) {
  constexpr uint64_t kBlockMetadata = 0x1a, kOffset = 0x08, kSize = 0x10;
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string message;
  for (const grpc::Slice& slice : slices) {
    message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  const uint8_t* at = reinterpret_cast<const uint8_t*>(message.data());
  const uint8_t* const end = at + message.size();
  while (at < end) {
    if (Varint(&at, end) != kBlockMetadata) {
      Varint(&at, end);
      continue;
    }
    const uint64_t length = Varint(&at, end);
    const uint8_t* const block_end = at + length;
    uint64_t offset = 0, size = 0;
    while (at < block_end) {
      const uint64_t tag = Varint(&at, block_end);
      const uint64_t value = Varint(&at, block_end);
      if (tag == kOffset) offset = value;
      if (tag == kSize) size = value;
    }
    entries->count += 1;
    entries->Add(offset);
    entries->Add(size);
  }
}

uint64_t CpuOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (pid == 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

uint64_t MicrosSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t at = 0; at + 1 < text.size(); at += 2) {
    bytes.push_back(static_cast<char>(strtoul(text.substr(at, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

// Waits for the one operation that is under way. False: it failed, or the stream has ended.
bool Done(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue->Next(&tag, &ok) && ok;
}

void Read(grpc::GenericStub* stub, std::istringstream line) {
  std::string method, request;
  uint64_t pause_us = 0, decode = 0;
  int64_t pid = 0;
  line >> method >> request >> pause_us >> decode >> pid;

  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const grpc::Slice slice(FromHex(request == "-" ? "" : request));
  const grpc::ByteBuffer message(&slice, 1);
  uint64_t messages = 0, bytes = 0, first_us = 0;
  Entries entries;
  const uint64_t cpu_before = CpuOf(pid);
  const Clock::time_point start = Clock::now();
  const auto call = stub->PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  if (Done(&queue)) {
    call->WriteLast(message, grpc::WriteOptions(), nullptr);
    Done(&queue);
    for (;;) {
      grpc::ByteBuffer received;
      call->Read(&received, nullptr);
      if (!Done(&queue)) break;
      if (messages == 0) first_us = MicrosSince(start);
      messages += 1;
      bytes += received.Length();
      if (decode != 0) Decode(received, &entries);
      if (pause_us != 0) usleep(pause_us);
    }
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  Done(&queue);
  const uint64_t total_us = MicrosSince(start);
  const uint64_t cpu = CpuOf(pid) - cpu_before;
  printf("{\"status\":%d,\"messages\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"firstUs\":%" PRIu64
         ",\"totalUs\":%" PRIu64 ",\"cpuNs\":%" PRIu64 ",\"entries\":%" PRIu64
         ",\"checksum\":\"%016" PRIx64 "\"}\n",
         status.error_code(), messages, bytes, first_us, total_us, cpu, entries.count,
         entries.checksum);
  fflush(stdout);
  if (!status.ok()) fprintf(stderr, "%s\n", status.error_message().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: grpc_stream_client SOCKET < CALLS\n");
    return 2;
  }
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  grpc::GenericStub stub(grpc::CreateCustomChannel(std::string("unix://") + argv[1],
                                                   grpc::InsecureChannelCredentials(), arguments));
  for (std::string line; std::getline(std::cin, line);) Read(&stub, std::istringstream(line));
  return 0;
}
