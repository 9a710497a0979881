// Where exceptions of llama.cpp and of its Vulkan module end.
//
// A C++ exception that reaches a Rust frame ends the process. Most functions of llama.h catch their own; those that compute do not (a lost
// Vulkan device is thrown through llama_decode). Each wrapper here returns a value instead and leaves the reason in `text`. It also reads
// the one C++-only fact that the plugin needs: how many bytes lie in which kind of memory.

#include "llama.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <map>

// From llama.cpp's staging header, which is not installed. The crate that carries llama.cpp is pinned to one version; a change of the
// signature fails to link.
struct llama_memory_breakdown_data {
    size_t model;
    size_t context;
    size_t compute;
};
using llama_memory_breakdown = std::map<ggml_backend_buffer_type_t, llama_memory_breakdown_data>;
llama_memory_breakdown llama_get_memory_breakdown(const struct llama_context * ctx);

static void keep(char * text, size_t capacity, const char * what) {
    if (text != nullptr && capacity > 0) {
        std::strncpy(text, what, capacity - 1);
        text[capacity - 1] = '\0';
    }
}

// Runs `work`; an exception becomes `failed`.
template <typename T, typename F> static T guarded(T failed, char * text, size_t capacity, F work) {
    keep(text, capacity, "");
    try {
        return work();
    } catch (const std::exception & error) {
        keep(text, capacity, error.what());
    } catch (...) {
        keep(text, capacity, "an exception that says nothing");
    }
    return failed;
}

extern "C" {

ggml_backend_reg_t onebit_backend_load(const char * path, char * text, size_t capacity) {
    return guarded<ggml_backend_reg_t>(nullptr, text, capacity, [&] { return ggml_backend_load(path); });
}

llama_model * onebit_model_load(const char * const * paths, size_t n_paths, const llama_model_params * params, char * text, size_t capacity) {
    return guarded<llama_model *>(nullptr, text, capacity, [&] {
        if (n_paths == 1) {
            return llama_model_load_from_file(paths[0], *params);
        }
        return llama_model_load_from_splits(const_cast<const char **>(paths), n_paths, *params);
    });
}

llama_context * onebit_context_new(llama_model * model, const llama_context_params * params, char * text, size_t capacity) {
    return guarded<llama_context *>(nullptr, text, capacity, [&] { return llama_init_from_model(model, *params); });
}

// llama_decode's answer, or INT32_MIN after an exception. Waits until the device is done, so that a failure shows here.
int32_t onebit_decode(llama_context * ctx, const llama_batch * batch, char * text, size_t capacity) {
    return guarded<int32_t>(INT32_MIN, text, capacity, [&] {
        const int32_t answer = llama_decode(ctx, *batch);
        llama_synchronize(ctx);
        return answer;
    });
}

// llama_tokenize's answer, or INT32_MIN after an exception.
int32_t onebit_tokenize(const llama_vocab * vocab, const char * input, int32_t length, llama_token * tokens, int32_t capacity_tokens,
                        bool add_special, bool parse_special, char * text, size_t capacity) {
    return guarded<int32_t>(INT32_MIN, text, capacity, [&] {
        return llama_tokenize(vocab, input, length, tokens, capacity_tokens, add_special, parse_special);
    });
}

// Bytes written, or 0.
size_t onebit_state_save(llama_context * ctx, uint8_t * to, size_t size, llama_seq_id seq, char * text, size_t capacity) {
    return guarded<size_t>(0, text, capacity, [&] { return llama_state_seq_get_data(ctx, to, size, seq); });
}

// Bytes read, or 0.
size_t onebit_state_load(llama_context * ctx, const uint8_t * from, size_t size, llama_seq_id seq, char * text, size_t capacity) {
    return guarded<size_t>(0, text, capacity, [&] { return llama_state_seq_set_data(ctx, from, size, seq); });
}

// Bytes of weights, state and compute buffers, in memory of the host (0..2) and of devices (3..5).
void onebit_memory(const llama_context * ctx, uint64_t out[6]) {
    std::memset(out, 0, 6 * sizeof(uint64_t));
    guarded<int>(0, nullptr, 0, [&] {
        for (const auto & [type, bytes] : llama_get_memory_breakdown(ctx)) {
            const ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
            const bool on_device = !ggml_backend_buft_is_host(type) && device != nullptr &&
                                   ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU;
            uint64_t * at = out + (on_device ? 3 : 0);
            at[0] += bytes.model;
            at[1] += bytes.context;
            at[2] += bytes.compute;
        }
        return 0;
    });
}

}
