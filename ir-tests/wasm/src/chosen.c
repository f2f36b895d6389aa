/* Numbers of unions and of boxes, which an optimiser makes in case they are chosen; what is chosen by its bits; singles
 * beside counts in a module with doubles.
 */
#define EXPORT(name) __attribute__((export_name(#name)))
#define APART __attribute__((noinline))

typedef union {
    long long integer;
    double number;
} Either;
typedef struct {
    int is_integer;
    Either either;
} Tagged;

static double number(Tagged v) { return v.is_integer ? (double)v.either.integer : v.either.number; }

static APART void put(Tagged *v, double x, int is_integer) {
    v->is_integer = is_integer;
    if (is_integer)
        v->either.integer = 7;
    else
        v->either.number = x * x;
}

/* x times its square, or seven times x. */
EXPORT(tagged) double tagged(double x, int is_integer) {
    Tagged v;
    put(&v, x, is_integer);
    return number(v) * x;
}

static double number_at(const Tagged *v) {
    Either e = v->either;
    return v->is_integer ? (double)e.integer : e.number;
}

static Tagged table[8];

static APART void fill(double x) {
    for (int k = 0; k < 8; k++) {
        table[k].is_integer = k & 1;
        if (k & 1)
            table[k].either.integer = k;
        else
            table[k].either.number = x * k * x;
    }
}

/* 68 x^2 + 100: the sum of k x^2 (k + 1), k even, and of k (k + 1), k odd. */
EXPORT(summed) double summed(double x) {
    double sum = 0;
    fill(x);
    for (int k = 0; k < 8; k++) sum += (k + 1) * (table[k].is_integer ? (double)table[k].either.integer : table[k].either.number);
    return sum;
}

EXPORT(summed_by_pointers) double summed_by_pointers(double x) {
    double sum = 0;
    fill(x);
    for (int k = 0; k < 8; k++) sum += (k + 1) * number_at(table + k);
    return sum;
}

typedef struct {
    int is_integer;
    union {
        int integer;
        float number;
    } either;
} Small;

static Small small[8];

static APART float sum_of_small(int n) {
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += (k + 1) * (small[k].is_integer ? (float)small[k].either.integer : small[k].either.number);
    return sum * n;
}

EXPORT(small_ones) float small_ones(float x) {
    for (int k = 0; k < 8; k++) {
        small[k].is_integer = k & 1;
        if (k & 1)
            small[k].either.integer = k;
        else
            small[k].either.number = x * k * x;
    }
    return sum_of_small(1);
}

/* Numbers in boxes: doubles, but for those with a mark that no double has. */
typedef union {
    unsigned long long bits;
    double number;
} Box;

static Box boxes[3];

static double unboxed(Box b) { return b.bits >> 32 == 0xfff90000u ? (double)(int)b.bits : b.number; }

static APART void box(double x) {
    boxes[0].number = x * x;
    boxes[1].bits = 0xfff9000000000007ull;
    boxes[2].number = 3 * x;
}

/* x^2 + 14 + 9 x. */
EXPORT(boxed) double boxed(double x) {
    double sum = 0;
    box(x);
    for (int k = 0; k < 3; k++) sum += (k + 1) * unboxed(boxes[k]);
    return sum;
}

/* Of singles those that are positive, by their bits: 44 x. */
static double wide[8];
static float narrow[8];

static APART float positive(const double *x, float *y, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        union {
            float number;
            unsigned bits;
        } u;
        u.number = (float)x[i];
        u.bits &= ~(unsigned)((int)u.bits >> 31);
        y[i] = u.number;
    }
    for (int i = 0; i < n; i++) sum += (i + 1) * y[i];
    return sum;
}

EXPORT(rectified) double rectified(double x) {
    for (int i = 0; i < 8; i++) wide[i] = x * (i - 4);
    return positive(wide, narrow, 8);
}

/* n |x|, of a sum of singles beside a count. */
static APART float sizes(double x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        union {
            float number;
            unsigned bits;
        } u;
        u.number = (float)x;
        u.bits &= 0x7fffffff;
        sum += u.number;
    }
    return sum;
}

EXPORT(counted) double counted(double x) { return sizes(x, 3); }

/* A radix sort of singles, each beside a key in the same order. */
typedef struct {
    unsigned key;
    float number;
} Keyed;

static Keyed sorted[4], other[4];

static void sort(Keyed *from, Keyed *to, int n) {
    for (int shift = 0; shift < 32; shift += 8) {
        int first[257];
        for (int i = 0; i < 257; i++) first[i] = 0;
        for (int i = 0; i < n; i++) first[(from[i].key >> shift & 255) + 1]++;
        for (int i = 0; i < 256; i++) first[i + 1] += first[i];
        for (int i = 0; i < n; i++) to[first[from[i].key >> shift & 255]++] = from[i];
        Keyed *next = from;
        from = to;
        to = next;
    }
}

static void sort_four(float x) {
    float y[4] = {x, -2 * x, 3, x * x};
    for (int i = 0; i < 4; i++) {
        union {
            float number;
            unsigned bits;
        } u;
        u.number = y[i];
        sorted[i].key = u.bits ^ (-(u.bits >> 31) | 0x80000000u);
        sorted[i].number = y[i];
    }
    sort(sorted, other, 4);
}

/* -2 x, x, x^2, 3 with the weights 1 to 4, if x is between 1 and 1.7. */
EXPORT(beside_keys) float beside_keys(float x) {
    float sum = 0;
    sort_four(x);
    for (int i = 0; i < 4; i++) sum += (i + 1) * sorted[i].number;
    return sum;
}
