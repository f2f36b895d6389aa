// said 
// call %f10045(1.6050546597981772, -0.6457574796223958, 1.303882360458374, 1888267897, 4, [1.6901433896565756, -1.6905801724934897, 0.5847490262532552, 1.0685460996175131] ~ [1.0, 0.5, -0.25, 0.0], f32[1.724668264389038, -1.8737237453460693, 1.483163595199585, -0.6976831555366516] ~ [1.0, 0.5, -0.25, 0.0])
// name f10045
// level O0 bulk
// floats double single
// inputs 1.6050546597981772 -0.6457574796223958 1.303882360458374 1.6901433896565756 -1.6905801724934897 0.5847490262532552 1.0685460996175131 1.724668264389038 -1.8737237453460693 1.483163595199585 -0.6976831555366516
// state 1888267897
// shadows 0.0 0.0 0.0 1.0 0.5 -0.25 0.0 1.0 0.5 -0.25 0.0
// calculates true
// value -1.9509455454462685
// gradient 1.0 0.5 0.0 0.75 0.5 -0.25 0.0 1.0 1.5 -0.25 0.5
// largest 1.5
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

static struct { double a; int tag; float b; } rec_f10045[4];
static NOINLINE u64 m1_f10045(u64 b, u32 h) { b &= ~0x8000000000000000ull; return b; }
static NOINLINE float m2_f10045(float x, u32 h) { u8 g[4]; for (int k = 0; k < 4; k++) g[k] = ((u8 *)&x)[k]; u32 b; __builtin_memcpy(&b, g, 4); b = __builtin_bswap32(b); b = __builtin_bswap32(b); float y; u8 p[4]; __builtin_memcpy(p, &b, 4); for (int k = 0; k < 4; k++) ((u8 *)&y)[k] = p[k]; return y; }
EXPORT(f10045) double f10045(double x, double y, float w, u32 h, int n, double *in0, float *in1) {
    double v0 = x, v1 = y, v2 = in0[0];
    float v3 = w, v4 = in1[1];
    for (int i = 0; i < 4; i++) { rec_f10045[i & 3].a = 0.375 * (i + 1); rec_f10045[i & 3].tag = 1; }
    for (int i = 0; i < 4; i++) { rec_f10045[i & 3].b = 0.375 * (i + 1); rec_f10045[i & 3].tag = 1; }
    int i = 0;
    { union { double f; u64 u; } g; g.f = in0[2]; u64 b = g.u; b = m1_f10045(b, h); union { double f; u8 c[8]; } p; p.c[0] = (u8)(b >> 0); p.c[1] = (u8)(b >> 8); p.c[2] = (u8)(b >> 16); p.c[3] = (u8)(b >> 24); p.c[4] = (u8)(b >> 32); p.c[5] = (u8)(b >> 40); p.c[6] = (u8)(b >> 48); p.c[7] = (u8)(b >> 56); rec_f10045[3].a = p.f; }
    for (u32 k = 0; k < (sizeof in0[1]) / 16; k++) ((lanes *)&in0[1])[k] = ((lanes *)&in0[1])[k]; for (u32 k = (sizeof in0[1]) / 16 * 4; k < (sizeof in0[1]) / 4; k++) ((u32 *)&in0[1])[k] = ((u32 *)&in0[1])[k];
    for (u32 k = 0; k < (sizeof rec_f10045[0]) / 4; k++) ((u32 *)&rec_f10045[0])[k] = ((u32 *)&rec_f10045[2])[k];
    in1[1] = m2_f10045(in1[3], h);
    rec_f10045[0].a = (double)in0[1] / ((double)1 + (double)v4 * (double)v4);
    double r = 0;
    r += (double)1 * v0;
    r += (double)0.5 * v1;
    r += (double)-0.25 * v2;
    r += (double)1.5 * v4;
    return r;
}

// made [Array { float: Double, storage: Beside }, Array { float: Single, storage: Frame }] true [Move { dst: Cell(2, Fixed(3)), src: Cell(0, Fixed(2)), ops: [Abs], get: Union, put: ByteUnion, shape: Bits }, CopyCell(0, Fixed(1), Fixed(1), Vectors), CopyCell(3, Fixed(0), Fixed(2), Words), Move { dst: Cell(1, Fixed(1)), src: Cell(1, Fixed(3)), ops: [Swap], get: Frame, put: Frame, shape: Value }, Arith(Cell(2, Fixed(0)), Cell(0, Fixed(1)), Number(4), Quotient)]
