#include "native/thin/delta_list.h"

#include <memory>
#include <utility>

namespace blockdelta {
namespace {

// False if the list is full and the run belongs to the next list.
bool Take(const DeltaRun& run, size_t max_runs, DeltaRuns* runs) {
  if (runs->size() == max_runs) {
    const DeltaRun& last = runs->runs().back();
    if (last.kind != run.kind || last.end() != run.begin) return false;
  }
  runs->Add(run.kind, run.begin, run.end());
  return true;
}

Status List(ThinScan* scan, uint64_t first_block, size_t max_runs, DeltaList* list) {
  DeltaWalk* const walk = scan->walk();
  Status status = walk->Seek({first_block, UINT64_MAX});
  while (status.ok() && !walk->done() && scan->nodes() < kMaxNodesPerList) {
    Result<Span<const DeltaRun>> runs = walk->Read();
    RETURN_IF_ERROR(runs);
    for (const DeltaRun& run : *runs) {
      list->next_block = run.begin;
      if (!Take(run, max_runs, &list->runs)) return Status();
    }
  }
  list->next_block = walk->examined();
  list->done = walk->done();
  return status;
}

}  // namespace

Result<DeltaList> ListDelta(const ThinScanRequest& request, uint64_t first_block, size_t max_runs) {
  Result<std::unique_ptr<ThinScan>> scan = ThinScan::Open(request);
  RETURN_IF_ERROR(scan);
  DeltaList list;
  Status status = List(scan->get(), first_block, max_runs, &list);
  status = (*scan)->Confirm(std::move(status));
  if (!status.ok()) return status;
  list.nodes = (*scan)->nodes();
  return list;
}

}  // namespace blockdelta
