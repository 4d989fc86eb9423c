#include "rows.h"

namespace draftwalk {

static_assert(sizeof(Span) == 4 * sizeof(int64_t), "spans stand in the table as four numbers");

Rows::Rows(int64_t rows, int64_t wanted, int64_t planes, int64_t spans)
    : numbers_(static_cast<size_t>((4 + planes) * rows + wanted + 4 * spans)) {
    const int64_t* tokens = numbers_.data();
    const int64_t* positions = tokens + 4 * rows;
    const int64_t* wanted_rows = positions + planes * rows;
    table_.size = rows;
    table_.wanted_count = wanted;
    table_.span_count = spans;
    table_.spans = reinterpret_cast<const Span*>(wanted_rows + wanted);
    table_.tokens = tokens;
    table_.sequences = tokens + rows;
    table_.places = tokens + 2 * rows;
    table_.positions = positions;
    table_.parents = tokens + 3 * rows;
    table_.wanted = wanted_rows;
    table_.embeddings = nullptr;
}

}  // namespace draftwalk
