/* The functions of cuBLAS that graphnet calls, on the host's memory, by the definition of the manual. */
#include <stddef.h>

static void *stream, *workspace;

int cublasCreate_v2(void **handle) { static int it; *handle = &it; return 0; }
int cublasSetStream_v2(void *handle, void *wanted) { stream = wanted; workspace = 0; return 0; }
int cublasSetMathMode(void *handle, int mode) { return mode == 0 || mode == 3 ? 0 : 7; }
int cublasSetWorkspace_v2(void *handle, void *memory, size_t bytes) { workspace = memory; return bytes < 4 << 20 ? 7 : 0; }

#define PRODUCTS(Real, single, batched)                                                                                \
    int batched(void *handle, int turn_a, int turn_b, int m, int n, int k, const Real *alpha, const Real *a, int lda,  \
                long long step_a, const Real *b, int ldb, long long step_b, const Real *beta, Real *c, int ldc,        \
                long long step_c, int count) {                                                                         \
        if (ldc < m || lda < (turn_a ? k : m) || ldb < (turn_b ? n : k) || !stream || !workspace) return 7;             \
        for (int q = 0; q < count; q++)                                                                                \
            for (int i = 0; i < m; i++)                                                                                \
                for (int j = 0; j < n; j++) {                                                                          \
                    Real sum = 0;                                                                                      \
                    for (int l = 0; l < k; l++) {                                                                      \
                        Real x = a[q * step_a + (turn_a ? l + (long)i * lda : i + (long)l * lda)];                     \
                        sum += x * b[q * step_b + (turn_b ? j + (long)l * ldb : l + (long)j * ldb)];                   \
                    }                                                                                                  \
                    c[q * step_c + i + (long)j * ldc] = *alpha * sum + *beta * 0;                                      \
                }                                                                                                      \
        return 0;                                                                                                      \
    }                                                                                                                  \
    int single(void *handle, int turn_a, int turn_b, int m, int n, int k, const Real *alpha, const Real *a, int lda,   \
               const Real *b, int ldb, const Real *beta, Real *c, int ldc) {                                           \
        return batched(handle, turn_a, turn_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);               \
    }
PRODUCTS(float, cublasSgemm_v2, cublasSgemmStridedBatched)
PRODUCTS(double, cublasDgemm_v2, cublasDgemmStridedBatched)
