// said 
// call %f10062(-0.8471982907796224, -1.561681551888021, -0.6340253781819661, 676732303, 4, [0.5530527066731771, -1.6703470181966147, 1.4814451169514975, -0.6102350186848958], [1.733739657356771, 0.8346479367757161, 2.249004168465169, 1.1333234738850912])
// name f10062
// level O0 plain
// floats double double
// inputs -0.8471982907796224 -1.561681551888021 -0.6340253781819661 0.5530527066731771 -1.6703470181966147 1.4814451169514975 -0.6102350186848958 1.733739657356771 0.8346479367757161 2.249004168465169 1.1333234738850912
// state 676732303
// shadows 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0
// calculates true
// value -15.45712298624878
// gradient 0.0 0.5 0.75 -0.25 0.0 0.0 0.0 0.0 0.0 0.0 0.0
// largest 1.0
// unsure no
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u32 lanes __attribute__((vector_size(16), aligned(1)));
#define NOINLINE __attribute__((noinline))
#define EXPORT(name) __attribute__((export_name(#name)))
static union { u8 c[8]; u16 q[4]; u32 h[2]; u64 wide; u32 narrow; double d; float s; } scratch;
static u8 blocks[4096] __attribute__((aligned(16)));
static u32 top;
static NOINLINE void *block(u32 bytes) { void *p = blocks + top; top += bytes + 15 & ~15u; return p; }

static NOINLINE void m1_f10062(double *y, double *x, u32 h) { scratch.d = (*x); u64 b = scratch.wide; b -= 0x10000000000000ull; scratch.wide = b; (*y) = scratch.d; }
EXPORT(f10062) double f10062(double x, double y, double w, u32 h, int n, double *in0, double *in1) {
    top = 0;
    struct __attribute__((packed)) { int tag; double f; } a3_f10062[4];
    double v0 = x, v1 = y, v2 = in0[0];
    double v3 = w, v4 = in1[1];
    for (int i = 0; i < 4; i++) { a3_f10062[i & 3].f = 0.375 * (i + 1); a3_f10062[i & 3].tag = 1; }
    int i = 0;
    m1_f10062((double *)&v4, (double *)&v0, h);
    in0[2] = (double)a3_f10062[2].f / ((double)1 + (double)v1 * (double)v1);
    a3_f10062[2].tag = (int)h;
    double r = 0;
    r += (double)0.5 * v1;
    r += (double)-0.25 * v2;
    r += (double)0.75 * v3;
    for (i = 0; i < 4; i++) r += (double)-1.25 * (i + 1) * a3_f10062[i & 3].f;
    return r;
}

// made [Array { float: Double, storage: Frame }, Array { float: Double, storage: Packed }] false [Move { dst: Number(4), src: Number(0), ops: [Scale(-1)], get: Global, put: Global, shape: Pointer }, Arith(Cell(0, Fixed(2)), Cell(3, Fixed(2)), Number(1), Quotient), Tag(3, Fixed(2))]
