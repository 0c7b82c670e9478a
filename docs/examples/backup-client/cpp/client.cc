// Brings a raw image of a volume up to date from changed-block lists of any CSI driver.
//
//   client SOCKET DEVICE IMAGE TARGET [BASE]
//
// SOCKET is the driver's unix socket, DEVICE a block device (or file) with the content of the
// snapshot TARGET, and IMAGE a raw file that holds the snapshot BASE. Without BASE, or if the
// driver gives no delta from it, the image is made anew from the allocated ranges.
//
// csi.pb.h and csi.grpc.pb.h are made by:
//   protoc --cpp_out=. --grpc_out=. --plugin=protoc-gen-grpc=$(which grpc_cpp_plugin) csi.proto
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "csi.grpc.pb.h"

namespace {

constexpr int kAttempts = 5;
constexpr size_t kChunkBytes = 1 << 20;

struct Done {
  uint64_t ranges = 0;
  int64_t bytes = 0;
};

// No sound delta can be had: the base is gone, or the driver cannot compare the two. Anything
// else is an error.
bool IsNoDelta(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::NOT_FOUND ||
         status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
}

// The stream broke, and the next one may not.
bool IsInterrupted(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::ABORTED ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

grpc::Status Failed(const std::string& message) {
  return grpc::Status(grpc::StatusCode::DATA_LOSS, message);
}

grpc::Status Copy(int device, int image, int64_t start, int64_t end) {
  std::vector<char> buffer(kChunkBytes);
  while (start < end) {
    const size_t length = std::min<int64_t>(kChunkBytes, end - start);
    const ssize_t got = pread(device, buffer.data(), length, start);
    if (got <= 0) return Failed("the device cannot be read at " + std::to_string(start));
    if (pwrite(image, buffer.data(), got, start) != got) return Failed("the image is full");
    start += got;
  }
  return grpc::Status::OK;
}

// Applies a list to the image; resumes broken streams where they broke. `open` starts a stream at
// an offset.
template <typename Response, typename Open>
grpc::Status Apply(int device, int image, Open open, Done* done) {
  int64_t position = 0;
  int failures = 0;
  for (;;) {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<Response>> stream = open(&context, position);
    Response message;
    while (stream->Read(&message)) {
      const int64_t capacity = message.volume_capacity_bytes();
      if (ftruncate(image, capacity) == -1) return Failed("the image cannot be resized");
      for (const csi::v1::BlockMetadata& block : message.block_metadata()) {
        // The first range of a resumed stream may begin before the offset that was asked for.
        const int64_t end = block.byte_offset() + block.size_bytes();
        if (end > capacity || end <= position) return Failed("the list is wrong");
        const grpc::Status copied =
            Copy(device, image, std::max<int64_t>(block.byte_offset(), position), end);
        if (!copied.ok()) return copied;
        done->ranges++;
        done->bytes += block.size_bytes();
        position = end;
      }
      failures = 0;
    }
    const grpc::Status status = stream->Finish();
    if (status.ok()) return fsync(image) == 0 ? status : Failed("the image cannot be flushed");
    if (!IsInterrupted(status) || ++failures == kAttempts) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(200 << failures));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: client SOCKET DEVICE IMAGE TARGET [BASE]\n";
    return 2;
  }
  const std::string target = argv[4];
  const std::string base = argc > 5 ? argv[5] : "";
  grpc::ChannelArguments options;
  options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  options.SetMaxReceiveMessageSize(-1);
  const auto driver = csi::v1::SnapshotMetadata::NewStub(grpc::CreateCustomChannel(
      std::string("unix://") + argv[1], grpc::InsecureChannelCredentials(), options));
  const int device = open(argv[2], O_RDONLY | O_CLOEXEC);
  Done done;
  std::string method = "delta";
  grpc::Status status(grpc::StatusCode::NOT_FOUND, "no base");
  if (!base.empty()) {
    const int image = open(argv[3], O_RDWR | O_CLOEXEC);
    status = Apply<csi::v1::GetMetadataDeltaResponse>(
        device, image,
        [&](grpc::ClientContext* context, int64_t offset) {
          csi::v1::GetMetadataDeltaRequest request;
          request.set_base_snapshot_id(base);
          request.set_target_snapshot_id(target);
          request.set_starting_offset(offset);
          return driver->GetMetadataDelta(context, request);
        },
        &done);
    close(image);
  }
  if (IsNoDelta(status)) {
    method = "full";
    done = Done();
    // The old image stays until the new one is complete: the target may not exist either. The new
    // one reads as zeros where no range is written.
    const std::string made = std::string(argv[3]) + ".new";
    const int image = open(made.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    status = Apply<csi::v1::GetMetadataAllocatedResponse>(
        device, image,
        [&](grpc::ClientContext* context, int64_t offset) {
          csi::v1::GetMetadataAllocatedRequest request;
          request.set_snapshot_id(target);
          request.set_starting_offset(offset);
          return driver->GetMetadataAllocated(context, request);
        },
        &done);
    close(image);
    if (status.ok() && rename(made.c_str(), argv[3]) == -1) {
      status = Failed("the image cannot be replaced");
    }
  }
  close(device);
  if (!status.ok()) {
    std::cerr << status.error_code() << " " << status.error_message() << "\n";
    return 1;
  }
  std::cout << method << " " << done.ranges << " " << done.bytes << "\n";
  return 0;
}
