"""Brings a raw image of a volume up to date from changed-block lists of any CSI driver.

    python3 client.py SOCKET DEVICE IMAGE TARGET [BASE]

SOCKET is the driver's unix socket, DEVICE a block device (or file) with the content of the snapshot TARGET, and IMAGE a
raw file that holds the snapshot BASE. Without BASE, or if the driver gives no delta from it, the image is made anew from
the allocated ranges.

csi_pb2 is made by: protoc --python_out=. csi.proto
"""

import os
import sys
import time

import csi_pb2 as csi
import grpc

ATTEMPTS = 5
CHUNK_BYTES = 1 << 20
# No sound delta can be had: the base is gone, or the driver cannot compare the two. Anything else is an error.
NO_DELTA = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
# The stream broke, and the next one may not.
INTERRUPTED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)


def stream(socket, rpc, request):
    """The messages of one stream. Raises the status with which it ends, unless that is OK."""
    options = [("grpc.default_authority", "localhost"), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel("unix://" + socket, options) as channel:
        call = channel.unary_stream(
            "/csi.v1.SnapshotMetadata/" + rpc,
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(csi, rpc + "Response").FromString,
        )
        yield from call(request)


def copy(device, image, start, end):
    while start < end:
        data = os.pread(device, min(CHUNK_BYTES, end - start), start)
        if not data:
            raise EOFError(f"the device ends at {start}, before the range does")
        os.pwrite(image, data, start)
        start += len(data)


def apply(socket, device, image, rpc, ids):
    """Applies a list to the image; resumes broken streams where they broke."""
    ranges = size = position = failures = 0
    while True:
        request = getattr(csi, rpc + "Request")(starting_offset=position, max_results=0, **ids)
        try:
            for message in stream(socket, rpc, request):
                capacity = message.volume_capacity_bytes
                os.ftruncate(image, capacity)
                for block in message.block_metadata:
                    # The first range of a resumed stream may begin before the offset that was asked for.
                    end = block.byte_offset + block.size_bytes
                    if end > capacity or end <= position:
                        raise ValueError(f"the list is wrong at {block.byte_offset}")
                    copy(device, image, max(block.byte_offset, position), end)
                    ranges += 1
                    size += block.size_bytes
                    position = end
                failures = 0
            os.fsync(image)
            return ranges, size
        except grpc.RpcError as error:
            failures += 1
            if error.code() not in INTERRUPTED or failures == ATTEMPTS:
                raise
            time.sleep(0.2 * 2**failures)


def update(socket, device, path, target, base):
    if base:
        image = os.open(path, os.O_RDWR)
        try:
            ids = {"base_snapshot_id": base, "target_snapshot_id": target}
            return "delta", *apply(socket, device, image, "GetMetadataDelta", ids)
        except grpc.RpcError as error:
            if error.code() not in NO_DELTA:
                raise
        finally:
            os.close(image)
    # The old image stays until the new one is complete: the target may not exist either. The new one reads as zeros where no
    # range is written.
    image = os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        done = apply(socket, device, image, "GetMetadataAllocated", {"snapshot_id": target})
    finally:
        os.close(image)
    os.rename(path + ".new", path)
    return "full", *done


def main():
    if len(sys.argv) < 5:
        sys.exit("usage: client.py SOCKET DEVICE IMAGE TARGET [BASE]")
    socket, device, image, target, base = (sys.argv[1:] + [""])[:5]
    source = os.open(device, os.O_RDONLY)
    print(*update(socket, source, image, target, base))


main()
