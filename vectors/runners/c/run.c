/* Run the vectors on textbook C: cc -O2 -o run run.c -lm && ./run ../../angles.json ...
 *
 * It computes in double; angles are products in long double. */
#include "vectors.h"

/* The formulas. */

static long double angle(double position, int i, int dim, double base) {
    return position * powl(base, -2.0L * i / dim);
}

static int frequencies(Value *p, double *out) {
    int dim = number(p, "dim");
    for (int i = 0; 2 * i < dim; i++) out[i] = angle(1, i, dim, number(p, "base"));
    return 1;
}

static int cos_sin(Value *p, Value *x, double *cosines, double *sines) {
    Array positions = array(x, "positions");
    int dim = number(p, "dim"), count = (dim + 1) / 2;
    for (int j = 0; j < positions.size * count; j++) {
        long double t = angle(positions.data[j / count], j % count, dim, number(p, "base"));
        cosines[j] = cosl(t);
        sines[j] = sinl(t);
    }
    return 1;
}

static int rotate(Value *p, Value *x, double *y) {
    Array given = array(x, "x"), positions = array(x, "positions");
    int features = given.shape[given.axes - 1], n = number(p, "rotary_dim");
    int half = is(p, "layout", "half"), used = n / 2;
    double sign = number(p, "inverse") ? -1 : 1;
    if (get(p, "proportion")) used = number(p, "proportion") * n / 2;
    memcpy(y, given.data, given.size * sizeof *y);
    for (int row = 0; row < positions.size; row++)
        for (int i = 0; i < used; i++) {
            double *a = y + row * features + (half ? i : 2 * i), *b = a + (half ? n / 2 : 1), old = *a;
            long double t = sign * angle(positions.data[row], i, n, number(p, "base"));
            *a = old * cosl(t) - *b * sinl(t);
            *b = old * sinl(t) + *b * cosl(t);
        }
    return 1;
}

static int alibi_slopes(Value *p, double *slopes) {
    int heads = number(p, "num_heads"), n = 1;
    while (2 * n <= heads) n *= 2;
    for (int h = 0; h < heads; h++)
        slopes[h] = h < n ? exp2(-8.0 * (h + 1) / n) : exp2(-4.0 * (2 * (h - n) + 1) / n);
    return 1;
}

static int attention(Value *p, Value *x, double *output, double *lse) {
    Array q = array(x, "q"), k = array(x, "k"), v = array(x, "v");
    Array attends = array(x, "attends"), bias = array(x, "bias"), sinks = array(x, "sinks");
    int heads = q.shape[0], queries = q.shape[1], keys = k.shape[1], d = q.shape[2], dv = v.shape[2];
    double *score = calloc(keys, sizeof *score), scale = number(p, "scale");
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < queries; i++, output += dv) {
            int group = h / (heads / k.shape[0]);
            double top = sinks.data ? sinks.data[h] : -INFINITY, total;
            for (int j = 0; j < keys; j++) {
                double *qi = q.data + (h * queries + i) * d, *kj = k.data + (group * keys + j) * d, s = 0;
                int pair = i * keys + j, all = queries * keys;
                double added = bias.data ? bias.data[h % bias.shape[0] * all + pair] : 0;
                for (int f = 0; f < d; f++) s += qi[f] * kj[f];
                s *= scale;
                if (get(p, "softcap")) s = number(p, "softcap") * tanh(s / number(p, "softcap"));
                score[j] = s + added;
                if (attends.data && !attends.data[h % attends.shape[0] * all + pair]) score[j] = -INFINITY;
                if (added == -INFINITY) score[j] = -INFINITY; /* also where the key is NaN */
                if (score[j] > top || isnan(score[j])) top = score[j];
            }
            total = sinks.data ? exp(sinks.data[h] - top) : 0;
            for (int j = 0; j < keys; j++) total += score[j] == -INFINITY ? 0 : exp(score[j] - top);
            lse[h * queries + i] = total == 0 ? -INFINITY : top + log(total);
            for (int j = 0; j < keys; j++) /* a hidden value is not read: 0 * NaN is NaN */
                for (int f = 0; f < dv && score[j] != -INFINITY; f++)
                    output[f] += exp(score[j] - top) / total * v.data[(group * keys + j) * dv + f];
        }
    return 1;
}

static int compute(const char *function, Value *p, Value *x, double *a, double *b) {
    if (!strcmp(function, "frequencies")) return frequencies(p, a);
    if (!strcmp(function, "cos_sin")) return cos_sin(p, x, a, b);
    if (!strcmp(function, "rotate")) return rotate(p, x, a);
    if (!strcmp(function, "alibi_slopes")) return alibi_slopes(p, a);
    return !strcmp(function, "attention") && attention(p, x, a, b);
}

int main(int count, char **paths) { return run(compute, count, paths); }
