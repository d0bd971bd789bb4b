/* Run the vectors on textbook C: cc -O2 -o run run.c -lm && ./run ../../angles.json ...
 *
 * It reads the JSON, computes in double, and compares the results as they are (float64) and
 * rounded (float32). Angles are products in long double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* JSON: a tree of values; those of an object or an array are a list. */

typedef struct Value {
    char type;             /* { [ " 0 for objects, arrays, texts and all others */
    char *key, *text;      /* the text of a number, too */
    struct Value *first, *next;
} Value;

static char *at; /* what is read next */

static void skip(const char *some) { at += strspn(at, some); }

static char *read_text(void) { /* at a quote */
    char *start = ++at;
    for (; *at != '"'; at++)
        if (*at == '\\') at++;
    *at++ = 0;
    return start;
}

static Value *read_value(void) {
    Value *value = calloc(1, sizeof *value), **last = &value->first;
    skip(" \n");
    if (*at == '"') {
        value->type = '"';
        value->text = read_text();
    } else if (*at == '{' || *at == '[') {
        value->type = *at++;
        for (skip(" \n,"); *at != '}' && *at != ']'; skip(" \n,")) {
            char *key = NULL;
            if (value->type == '{') {
                key = read_text();
                skip(" :");
            }
            *last = read_value();
            (*last)->key = key;
            last = &(*last)->next;
        }
        at++;
    } else { /* the end of a number is overwritten once it has been read */
        size_t length = strcspn(at, ",]} \n");
        value->text = calloc(length + 1, 1);
        memcpy(value->text, at, length);
        at += length;
    }
    return value;
}

static Value *get(Value *object, const char *key) { /* NULL if it is not there, or null */
    Value *value = object->first;
    while (value && strcmp(value->key, key)) value = value->next;
    return value && value->type == 0 && !strcmp(value->text, "null") ? NULL : value;
}

static double number(Value *object, const char *key) {
    Value *value = get(object, key);
    return value->type == 0 && *value->text == 't' ? 1 : strtod(value->text, NULL);
}

static int is(Value *object, const char *key, const char *text) {
    return !strcmp(get(object, key)->text, text);
}

typedef struct {
    int axes, shape[4], size;
    double *data;
} Array;

static Array array(Value *object, const char *key) { /* no data if it is not there */
    Array a = {0};
    Value *value = get(object, key), *item;
    if (!value) return a;
    for (item = get(value, "shape")->first; item; item = item->next) a.shape[a.axes++] = atoi(item->text);
    for (item = get(value, "data")->first; item; item = item->next) a.size++;
    a.data = calloc(a.size + 1, sizeof *a.data);
    a.size = 0;
    for (item = get(value, "data")->first; item; item = item->next)
        a.data[a.size++] = strtod(item->text, NULL); /* also NaN and Infinity */
    return a;
}

/* The formulas. Each writes one output or two, and returns 0 if it lacks something. */

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

/* Comparison: errors in units in the last place. */

static int passes(Value *expected, const char *name, const double *came, const char *dtype) {
    Array e = array(expected, name);
    Value *written = get(expected, name);
    int is_float = !strcmp(dtype, "float32"), digits = is_float ? 24 : 53;
    double least = is_float ? -126 : -1022, most = number(get(written, "ulps"), dtype);
    for (int i = 0; i < e.size; i++) {
        double r = is_float ? (float)came[i] : came[i];
        double m = fmax(fmax(fabs(e.data[i]), number(written, "scale")), exp2(least));
        if (!isfinite(e.data[i]) ? isnan(e.data[i]) ? !isnan(r) : r != e.data[i]
                                 : !(fabs(r - e.data[i]) <= most * ldexp(1, ilogb(m) - digits + 1)))
            return 0;
    }
    return 1;
}

int main(int count, char **paths) {
    static double a[1 << 16], b[1 << 16];
    int any = 0;
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        char *text = calloc(1 << 22, 1);
        if (!file || !fread(text, 1, (1 << 22) - 1, file)) return 2;
        fclose(file);
        at = text;
        Value *tests = get(read_value(), "tests");
        const char *dtypes[] = {"float64", "float32"};
        for (int d = 0; d < 2; d++) {
            int pass = 0, fail = 0, cannot = 0;
            for (Value *test = tests->first; test; test = test->next) {
                Value *expected = get(test, "expected"), *output = expected->first;
                memset(a, 0, sizeof a);
                memset(b, 0, sizeof b);
                if (!compute(get(test, "function")->text, get(test, "parameters"), get(test, "inputs"), a, b)) {
                    cannot++;
                    continue;
                }
                int good = passes(expected, output->key, a, dtypes[d]);
                if (output->next) good &= passes(expected, output->next->key, b, dtypes[d]);
                if (!good) printf("%s fails in %s\n", get(test, "id")->text, dtypes[d]);
                good ? pass++ : fail++;
            }
            any |= fail;
            printf("%s %s: %d pass, %d fail, %d cannot\n", paths[i], dtypes[d], pass, fail, cannot);
        }
    }
    return any != 0;
}
