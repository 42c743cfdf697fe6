/* Adam of some rows of a table, in one pass over memory. adam.py says what is computed; where this
 * file was not compiled, it moves the whole table instead. Called through ctypes; no Python here. */
#include <math.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif

/* Rows are far apart in memory: fetch the next one while this one is computed. */
static inline void fetch(const float *row, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 16) __builtin_prefetch(row + i);
}

FOR_EVERY_PROCESSOR
void simile_replay_rows(const int64_t *rows, int64_t begin, int64_t end, int64_t dim, float *weight,
                        const float *first, const float *second, const float *total,
                        const float *mean, const float *spread, float eps) {
    for (int64_t r = begin; r < end; r++) {
        if (r + 1 < end) {
            fetch(weight + rows[r + 1] * dim, dim);
            fetch(first + rows[r + 1] * dim, dim);
            fetch(second + rows[r + 1] * dim, dim);
        }
        float *restrict w = weight + rows[r] * dim;
        const float *restrict m = first + rows[r] * dim;
        const float *restrict v = second + rows[r] * dim;
        const float t = total[r], u = mean[r], s = spread[r];
        for (int64_t i = 0; i < dim; i++) {
            const float root = sqrtf(v[i]) * u;
            const float below = root + eps;
            const float x = root / below;
            w[i] -= (t + s * x * x) * m[i] / below;
        }
    }
}

FOR_EVERY_PROCESSOR
void simile_adam_rows(const int64_t *rows, int64_t begin, int64_t end, int64_t dim, float *weight,
                      float *first, float *second, const float *gradient, const float *decay1,
                      const float *decay2, float new1, float new2, float rate, float root_correction,
                      float eps) {
    for (int64_t r = begin; r < end; r++) {
        if (r + 1 < end) {
            fetch(weight + rows[r + 1] * dim, dim);
            fetch(first + rows[r + 1] * dim, dim);
            fetch(second + rows[r + 1] * dim, dim);
        }
        float *restrict w = weight + rows[r] * dim;
        float *restrict m = first + rows[r] * dim;
        float *restrict v = second + rows[r] * dim;
        const float *restrict g = gradient + r * dim;
        const float keep1 = decay1[r], keep2 = decay2[r];
        for (int64_t i = 0; i < dim; i++) {
            m[i] = keep1 * m[i] + new1 * g[i];
            v[i] = keep2 * v[i] + new2 * g[i] * g[i];
            w[i] -= rate * m[i] / (sqrtf(v[i]) / root_correction + eps);
        }
    }
}
