/* libcuda.so.1 without a GPU: memory of the "GPU" is the host's, launches are written to $STUB_LOG, nothing computes.
   What a driver would refuse is written with "!!": calls without a context, and during a capture what spoils it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Pointer;
enum { OK = 0, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, CAPTURE_UNMATCHED = 401 };

static __thread void *contexts[64];
static __thread int depth;
static int the_context;
static _Thread_local void *captured; /* the stream that this thread is capturing */
static size_t used;

static FILE *out(void) {
    static FILE *file;
    if (!file) {
        const char *path = getenv("STUB_LOG");
        file = fopen(path ? path : "/dev/null", "a");
        setvbuf(file, 0, _IOLBF, 0);
    }
    return file;
}
static long setting(const char *name, long otherwise) {
    const char *value = getenv(name);
    return value ? atol(value) : otherwise;
}
#define LOG(...) (fprintf(out(), __VA_ARGS__), fputc('\n', out()))
#define NEED_CONTEXT do { if (!depth) { LOG("!! %s without a context", __func__); return NO_CONTEXT; } } while (0)
#define NOT_IN_CAPTURE do { if (captured) LOG("!! %s in a capture", __func__); } while (0)

Result cuInit(unsigned flags) { return (Result)setting("STUB_INIT", OK); }
Result cuDriverGetVersion(int *version) { *version = (int)setting("STUB_VERSION", 13030); return OK; }
Result cuDeviceGet(int *device, int number) { *device = number; return OK; }
Result cuDeviceGetCount(int *count) { *count = (int)setting("STUB_COUNT", 1); return OK; }
Result cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Stub", length); return OK; }
Result cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 7, 16); return OK; }
Result cuDeviceTotalMem(size_t *bytes, int device) { *bytes = 1UL << 34; return OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    long capability = setting("STUB_CAPABILITY", 90);
    *value = attribute == 75   ? (int)(capability / 10)
             : attribute == 76 ? (int)(capability % 10)
             : attribute == 16 ? 132
             : attribute == 10 ? 32
                               : 1;
    return OK;
}

Result cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &the_context;
    return (Result)setting("STUB_RETAIN", OK);
}
Result cuDevicePrimaryCtxRelease(int device) { return OK; }
Result cuDevicePrimaryCtxReset(int device) { return OK; }
Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return OK; }
Result cuCtxGetCurrent(void **context) { *context = depth ? contexts[depth - 1] : 0; return OK; }
Result cuCtxSetCurrent(void *context) {
    if (!depth) depth = 1;
    contexts[depth - 1] = context;
    if (!context) depth--;
    return OK;
}
Result cuCtxPushCurrent(void *context) {
    if (depth > 60) { LOG("!! contexts pile up"); return NO_CONTEXT; }
    contexts[depth++] = context;
    return OK;
}
Result cuCtxPopCurrent(void **context) {
    if (!depth) return NO_CONTEXT;
    *context = contexts[--depth];
    return OK;
}
Result cuCtxGetDevice(int *device) { NEED_CONTEXT; *device = 0; return OK; }
Result cuCtxGetDevice_v2(int *device, void *context) { *device = 0; return OK; }
Result cuCtxGetId(void *context, unsigned long long *id) { *id = 1; return OK; }
Result cuCtxSynchronize(void) { NEED_CONTEXT; NOT_IN_CAPTURE; return OK; }
Result cuCtxSynchronize_v2(void *context) { return OK; }

static size_t capacity(void) { return (size_t)setting("STUB_MEMORY", 1L << 33); }
Result cuMemGetInfo(size_t *free_bytes, size_t *total) {
    NEED_CONTEXT;
    *free_bytes = capacity() - used;
    *total = capacity();
    return OK;
}
Result cuMemAlloc(Pointer *pointer, size_t bytes) {
    NEED_CONTEXT;
    NOT_IN_CAPTURE;
    if (used + bytes > capacity()) { LOG("out of memory"); return OUT_OF_MEMORY; }
    char *memory = aligned_alloc(256, (bytes / 256 + 2) * 256);
    *(size_t *)memory = bytes;
    memset(memory + 256, 0xAB, bytes);
    used += bytes;
    *pointer = (Pointer)(memory + 256);
    LOG("allocate %zu", bytes);
    return OK;
}
Result cuMemFree(Pointer pointer) {
    NEED_CONTEXT;
    used -= *(size_t *)(pointer - 256);
    free((char *)pointer - 256);
    return OK;
}
#define COPY(name, To, From)                                                                                           \
    Result name(To to, From from, size_t bytes) {                                                                      \
        NEED_CONTEXT;                                                                                                  \
        NOT_IN_CAPTURE;                                                                                                \
        memcpy((void *)to, (void *)from, bytes);                                                                       \
        return OK;                                                                                                     \
    }                                                                                                                  \
    Result name##Async(To to, From from, size_t bytes, void *stream) {                                                 \
        NEED_CONTEXT;                                                                                                  \
        if (captured && captured == stream) LOG("!! a copy became part of a capture");                                 \
        LOG(#name " %zu", bytes);                                                                                      \
        memcpy((void *)to, (void *)from, bytes);                                                                       \
        return OK;                                                                                                     \
    }
COPY(cuMemcpyHtoD, Pointer, void *)
COPY(cuMemcpyDtoH, void *, Pointer)
COPY(cuMemcpyDtoD, Pointer, Pointer)

Result cuStreamCreate(void **stream, unsigned flags) { NEED_CONTEXT; *stream = calloc(1, 64); return OK; }
Result cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return cuStreamCreate(stream, flags); }
Result cuStreamDestroy(void *stream) { return OK; }
Result cuStreamSynchronize(void *stream) {
    if (captured && captured == stream) LOG("!! a stream is waited for in its capture");
    return OK;
}
Result cuStreamGetCtx(void *stream, void **context) { *context = &the_context; return OK; }
Result cuStreamGetDevice(void *stream, int *device) { *device = 0; return OK; }
Result cuStreamGetFlags(void *stream, unsigned *flags) { *flags = 0; return OK; }
Result cuStreamGetPriority(void *stream, int *priority) { *priority = 0; return OK; }
Result cuStreamIsCapturing(void *stream, int *answer) { *answer = captured && captured == stream; return OK; }
Result cuStreamBeginCapture(void *stream, int mode) {
    NEED_CONTEXT;
    LOG("capture begins");
    captured = stream;
    return OK;
}
Result cuStreamEndCapture(void *stream, void **graph) {
    LOG("capture ends");
    if (captured != stream) return CAPTURE_UNMATCHED;
    captured = 0;
    *graph = malloc(8);
    return OK;
}
Result cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) { *made = malloc(8); return OK; }
Result cuGraphDestroy(void *graph) { free(graph); return OK; }
Result cuGraphExecDestroy(void *graph) { free(graph); return OK; }
Result cuGraphUpload(void *graph, void *stream) { NEED_CONTEXT; return OK; }
Result cuGraphLaunch(void *graph, void *stream) { NEED_CONTEXT; LOG("graph"); return (Result)setting("STUB_GRAPH", OK); }

Result cuEventCreate(void **event, unsigned flags) { NEED_CONTEXT; *event = malloc(8); return OK; }
Result cuEventDestroy(void *event) { free(event); return OK; }
Result cuEventRecord(void *event, void *stream) { return OK; }
Result cuEventSynchronize(void *event) { return OK; }
Result cuEventElapsedTime(float *milliseconds, void *from, void *to) { *milliseconds = 1.5f; return OK; }

Result cuLibraryLoadData(void **library, void *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
    NEED_CONTEXT;
    NOT_IN_CAPTURE;
    LOG("library %s", memcmp(code, "\x7f" "ELF", 4) ? "of another kind" : "of machine code");
    *library = malloc(8);
    return OK;
}
Result cuLibraryUnload(void *library) { return OK; }
Result cuLibraryGetKernel(void **kernel, void *library, char *name) { *kernel = malloc(8); return OK; }
Result cuLibraryGetModule(void **module, void *library) { *module = malloc(8); return OK; }
Result cuKernelGetLibrary(void **library, void *kernel) { *library = malloc(8); return OK; }
Result cuKernelGetFunction(void **function, void *kernel) { *function = malloc(8); return OK; }
Result cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) { *value = attribute ? 32 : 1024; return OK; }

static Result launched(const unsigned *grid, const unsigned *block, void *stream) {
    if (grid[1] > 65535 || grid[2] > 65535 || !grid[0] || !grid[1] || !grid[2] || block[0] * block[1] * block[2] > 1024)
        LOG("!! a launch of %u %u %u blocks of %u %u %u threads", grid[0], grid[1], grid[2], block[0], block[1], block[2]);
    LOG("launch%s", captured && captured == stream ? " captured" : "");
    return OK;
}
Result cuLaunchKernelEx(const unsigned *config, void *function, void **arguments, void **more) {
    NEED_CONTEXT;
    return launched(config, config + 3, *(void **)(config + 8));
}
Result cuLaunchKernel(void *function, unsigned a, unsigned b, unsigned c, unsigned x, unsigned y, unsigned z,
                      unsigned shared, void *stream, void **arguments, void **more) {
    NEED_CONTEXT;
    unsigned grid[] = {a, b, c}, block[] = {x, y, z};
    return launched(grid, block, stream);
}

Result cuGetErrorName(int error, char **name) { *name = "CUDA_ERROR_STUB"; return OK; }
Result cuGetErrorString(int error, char **words) { *words = "an error of the stub"; return OK; }
Result cuPointerGetAttribute(void *data, int attribute, Pointer pointer) { *(Pointer *)data = pointer; return OK; }
Result cuMemGetAddressRange(Pointer *base, size_t *bytes, Pointer pointer) { *base = pointer; *bytes = 1; return OK; }

Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    static void *self;
    if (!self) {
        Dl_info here;
        dladdr((void *)cuGetProcAddress_v2, &here);
        self = dlopen(here.dli_fname, RTLD_NOW);
    }
    *found = strcmp(name, "cuGetProcAddress") ? dlsym(self, name) : (void *)cuGetProcAddress_v2;
    if (status) *status = *found ? 0 : 1;
    return OK;
}
Result cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, 0);
}
