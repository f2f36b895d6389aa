// said 
// call %f10142(2.0646588802337646, -1.8818528652191162, 1.256133794784546, 1295197133, 4, f32[0.7789018750190735, 0.8581083416938782, -1.119168996810913, -0.5075281262397766], f32[-0.9921663403511047, -0.40967729687690735, 0.6937559247016907, 0.703334629535675])
// name f10142
// level O0 bulk
// floats single single
// inputs 2.0646588802337646 -1.8818528652191162 1.256133794784546 0.7789018750190735 0.8581083416938782 -1.119168996810913 -0.5075281262397766 -0.9921663403511047 -0.40967729687690735 0.6937559247016907 0.703334629535675
// state 1295197133
// shadows 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0
// calculates true
// value 4.955845355987549
// gradient 0.0 1.5 0.75 -0.25 0.0 0.0 0.0 0.0 0.0 0.0 0.0
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

EXPORT(f10142) float f10142(float x, float y, float w, u32 h, int n, float *in0, float *in1) {
    top = 0;
    union { float f; u32 u; u8 c[4]; } a2_f10142[4];
    u8 raw3[20] __attribute__((aligned(16))); float *a3_f10142 = (float *)(raw3 + 4);
    float v0 = x, v1 = y, v2 = in0[0];
    float v3 = w, v4 = in1[1];
    for (int i = 0; i < 4; i++) { a2_f10142[i & 3].f = 0.375 * (i + 1); }
    for (int i = 0; i < 4; i++) { a3_f10142[i & 3] = 0.375 * (i + 1); }
    int i = 0;
    { union { float f; u8 c[4]; } g; g.f = v1; u32 b = (u32)g.c[0] << 0 | (u32)g.c[1] << 8 | (u32)g.c[2] << 16 | (u32)g.c[3] << 24; b += 1; *(u32 *)&v0 = b; }
    { u32 b = 0; for (int k = 0; k < 4; k++) b |= (u32)((u8 *)&in1[1])[k] << 8 * k; b += h & 0xfu; b &= ~0xfu; b += 1; union { float f; u32 u; } p; p.u = b; a3_f10142[2] = p.f; }
    float r = 0;
    r += (float)1 * v0;
    r += (float)0.5 * v1;
    r += (float)-0.25 * v2;
    r += (float)0.75 * v3;
    for (i = 0; i < 4; i++) r += (float)0.625 * (i + 1) * a2_f10142[i & 3].f;
    return r;
}

// made [Array { float: Single, storage: Union }, Array { float: Single, storage: Odd }] false [Move { dst: Number(0), src: Number(1), ops: [Step(true)], get: ByteUnion, put: Cast, shape: Inline }, Move { dst: Cell(3, Fixed(2)), src: Cell(1, Fixed(1)), ops: [RoundRandom(4), Step(true)], get: Bytes, put: Union, shape: Inline }]
