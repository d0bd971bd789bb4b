/* What programs in C share: the vectors are read, and results compared with them.
 *
 * A program defines a function of the type Compute, and ends in `return run(compute, count, paths);`.
 * Results are compared as they are (float64) and rounded (float32). */
#ifndef VECTORS_H
#define VECTORS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes one output or two, in the order of the file, and returns 0 if it lacks something. */
typedef struct Value Value;
typedef int Compute(const char *function, Value *parameters, Value *inputs, double *first,
                    double *second);

/* JSON: a tree of values; those of an object or an array are a list. */

struct Value {
    char type;             /* { [ " 0 for objects, arrays, texts and all others */
    char *key, *text;      /* the text of a number, too */
    struct Value *first, *next;
};

static char *at; /* what is read next */

static inline void skip(const char *some) { at += strspn(at, some); }

static inline char *read_text(void) { /* at a quote */
    char *start = ++at;
    for (; *at != '"'; at++)
        if (*at == '\\') at++;
    *at++ = 0;
    return start;
}

static inline Value *read_value(void) {
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

static inline Value *get(Value *object, const char *key) { /* NULL if it is not there, or null */
    Value *value = object->first;
    while (value && strcmp(value->key, key)) value = value->next;
    return value && value->type == 0 && !strcmp(value->text, "null") ? NULL : value;
}

static inline double number(Value *object, const char *key) {
    Value *value = get(object, key);
    return value->type == 0 && *value->text == 't' ? 1 : strtod(value->text, NULL);
}

static inline int is(Value *object, const char *key, const char *text) {
    return !strcmp(get(object, key)->text, text);
}

typedef struct {
    int axes, shape[4], size;
    double *data;
} Array;

static inline Array array(Value *object, const char *key) { /* no data if it is not there */
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

/* Comparison: errors in units in the last place. */

static inline int passes(Value *expected, const char *name, const double *came, const char *dtype) {
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

static inline int run(Compute *compute, int count, char **paths) {
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

#endif
