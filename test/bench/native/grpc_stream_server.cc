// grpc_stream_server SOCKET: SnapshotMetadata as one would write it in C++, with generated
// messages.
//
// The peer of the suite `stream`. Synchronous service, one message object reused for the whole
// stream, as protobuf recommends. It sends a synthetic list, and nothing is scanned.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "csi.grpc.pb.h"
#include "synthetic_list.h"

namespace {

using blockdelta_bench::kEntriesPerMessage;
using blockdelta_bench::kExtentBytes;
using blockdelta_bench::kStrideBytes;

class SnapshotMetadata final : public csi::v1::SnapshotMetadata::Service {
 public:
  grpc::Status GetMetadataAllocated(
      grpc::ServerContext*, const csi::v1::GetMetadataAllocatedRequest* request,
      grpc::ServerWriter<csi::v1::GetMetadataAllocatedResponse>* writer) override {
    const uint64_t entries = blockdelta_bench::EntriesOf(request->snapshot_id());
    const uint64_t per_message =
        request->max_results() > 0 ? request->max_results() : kEntriesPerMessage;
    csi::v1::GetMetadataAllocatedResponse response;
    for (uint64_t first = 0; first < entries; first += per_message) {
      const uint64_t end = std::min(first + per_message, entries);
      response.Clear();
      response.set_block_metadata_type(csi::v1::VARIABLE_LENGTH);
      response.set_volume_capacity_bytes(blockdelta_bench::CapacityOf(entries));
      for (uint64_t entry = first; entry < end; ++entry) {
        csi::v1::BlockMetadata* block = response.add_block_metadata();
        block->set_byte_offset(entry * kStrideBytes);
        block->set_size_bytes(kExtentBytes);
      }
      if (!writer->Write(response)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: grpc_stream_server SOCKET\n");
    return 2;
  }
  SnapshotMetadata service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix://") + argv[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    fprintf(stderr, "grpc_stream_server: cannot listen on %s\n", argv[1]);
    return 1;
  }
  printf("serving\n");
  fflush(stdout);
  // Until the benchmark ends, which closes its end of the pipe.
  while (getchar() != EOF) {
  }
  return 0;
}
