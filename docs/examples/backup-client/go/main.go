// Brings a raw image of a volume up to date from changed-block lists of any CSI driver.
//
//	client SOCKET DEVICE IMAGE TARGET [BASE]
//
// SOCKET is the driver's unix socket, DEVICE a block device (or file) with the content of the snapshot TARGET, and
// IMAGE a raw file that holds the snapshot BASE. Without BASE, or if the driver gives no delta from it, the image is
// made anew from the allocated ranges.
//
// On Debian, in a directory with this file and csi.proto:
//
//	apt-get install golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev \
//	  protobuf-compiler libprotobuf-dev protoc-gen-go protoc-gen-go-grpc
//
//	package=Mcsi.proto=github.com/container-storage-interface/spec/lib/go/csi
//	mkdir -p src
//	protoc -I . -I /usr/include --go_out=src --go_opt=$package --go-grpc_out=src --go-grpc_opt=$package csi.proto
//	GO111MODULE=off GOPATH=$PWD:/usr/share/gocode go build -o client main.go
//
// The import path is that of the Go package that CSI publishes, which a program with Go modules can use instead.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	attempts   = 5
	chunkBytes = 1 << 20
)

// No sound delta can be had: the base is gone, or the driver cannot compare the two. Anything else is an error.
func isNoDelta(err error) bool {
	code := status.Code(err)
	return code == codes.NotFound || code == codes.FailedPrecondition
}

// The stream broke, and the next one may not.
func isInterrupted(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// What the messages of both lists have.
type listMessage interface {
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// A stream gives its next message, or io.EOF after the last one.
type stream func() (listMessage, error)

// An opener starts a stream at an offset.
type opener func(ctx context.Context, driver csi.SnapshotMetadataClient, offset int64) (stream, error)

func allocated(target string) opener {
	return func(ctx context.Context, driver csi.SnapshotMetadataClient, offset int64) (stream, error) {
		request := &csi.GetMetadataAllocatedRequest{SnapshotId: target, StartingOffset: offset}
		call, err := driver.GetMetadataAllocated(ctx, request)
		return func() (listMessage, error) { return call.Recv() }, err
	}
}

func delta(base, target string) opener {
	return func(ctx context.Context, driver csi.SnapshotMetadataClient, offset int64) (stream, error) {
		request := &csi.GetMetadataDeltaRequest{
			BaseSnapshotId:   base,
			TargetSnapshotId: target,
			StartingOffset:   offset,
		}
		call, err := driver.GetMetadataDelta(ctx, request)
		return func() (listMessage, error) { return call.Recv() }, err
	}
}

// Calls use with each message of one stream. Returns the status with which the stream ends, unless that is OK.
func read(socket string, open opener, offset int64, use func(listMessage) error) error {
	// Go sets the authority of a unix socket to localhost by itself.
	connection, err := grpc.Dial("unix:"+socket, grpc.WithInsecure(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return err
	}
	defer connection.Close()
	next, err := open(context.Background(), csi.NewSnapshotMetadataClient(connection), offset)
	if err != nil {
		return err
	}
	for {
		message, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := use(message); err != nil {
			return err
		}
	}
}

func copyRange(device, image *os.File, from, end int64) error {
	buffer := make([]byte, chunkBytes)
	for from < end {
		if end-from < chunkBytes {
			buffer = buffer[:end-from]
		}
		// ReadAt and WriteAt return an error unless they do all of it.
		if n, err := device.ReadAt(buffer, from); n < len(buffer) {
			return fmt.Errorf("the device cannot be read at %d: %w", from+int64(n), err)
		}
		if _, err := image.WriteAt(buffer, from); err != nil {
			return err
		}
		from += int64(len(buffer))
	}
	return nil
}

// How much of a list is in the image.
type progress struct {
	ranges, bytes int64
	// Where the last range ended.
	position int64
}

func (p *progress) add(message listMessage, device, image *os.File) error {
	capacity := message.GetVolumeCapacityBytes()
	if err := image.Truncate(capacity); err != nil {
		return err
	}
	for _, block := range message.GetBlockMetadata() {
		// The first range of a resumed stream may begin before the offset that was asked for.
		from, end := block.ByteOffset, block.ByteOffset+block.SizeBytes
		if end > capacity || end <= p.position {
			return fmt.Errorf("the list is wrong at %d", from)
		}
		if from < p.position {
			from = p.position
		}
		if err := copyRange(device, image, from, end); err != nil {
			return err
		}
		p.ranges++
		p.bytes += block.SizeBytes
		p.position = end
	}
	return nil
}

// Applies a list to the image; resumes broken streams where they broke.
func apply(socket string, device, image *os.File, open opener) (progress, error) {
	var done progress
	failures := 0
	for {
		err := read(socket, open, done.position, func(message listMessage) error {
			err := done.add(message, device, image)
			if err == nil {
				failures = 0
			}
			return err
		})
		if err == nil {
			return done, image.Sync()
		}
		failures++
		if !isInterrupted(err) || failures == attempts {
			return done, err
		}
		time.Sleep(200 * time.Millisecond << failures)
	}
}

// Returns how the image was made, and how much was written.
func update(socket string, device *os.File, path, target, base string) (string, progress, error) {
	if base != "" {
		image, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", progress{}, err
		}
		defer image.Close()
		done, err := apply(socket, device, image, delta(base, target))
		if !isNoDelta(err) {
			return "delta", done, err
		}
	}
	// The old image stays until the new one is complete: the target may not exist either. The new
	// one reads as zeros where no range is written.
	image, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", progress{}, err
	}
	defer image.Close()
	done, err := apply(socket, device, image, allocated(target))
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return "full", done, err
}

func run(socket, device, image, target, base string) error {
	source, err := os.Open(device)
	if err != nil {
		return err
	}
	defer source.Close()
	method, done, err := update(socket, source, image, target, base)
	if err != nil {
		return err
	}
	fmt.Println(method, done.ranges, done.bytes)
	return nil
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: client SOCKET DEVICE IMAGE TARGET [BASE]")
		os.Exit(2)
	}
	args := append(os.Args[1:], "")
	if err := run(args[0], args[1], args[2], args[3], args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
