//! Signatures of embedded derivatives: what their parameters and results are.
//!
//! **Question.** By which parameters and results is a derivative called that a spec asks for?
//! **Answer.** Functions of [`SignatureInputs`] (`gradient`, `forward`, `pullback`, `tangent`) list
//! the roles, by the table of [`brolga_ir::spec`]; [`DerivedSignature`] has them as a signature of
//! CLIF, and prints them as a prototype of C.
//!
//! Results that the calling convention cannot return, and any if the spec asks for that, are in a
//! struct of C's layout, whose address is the last parameter.
//!
//! **Cost.** A few walks over the parameters and results. In a run, a store for each result that is
//! in a struct.

use std::fmt;

use brolga_analysis::Variant;
use brolga_ir::spec::{Derivative, ParamActivity, ReturnActivity, Spec};
use cranelift_codegen::ir::{AbiParam, ArgumentPurpose, Signature, Type, types};
use cranelift_codegen::isa::CallConv;

use super::room::Room;
use crate::standalone::derived_func::duplicated;

/// What a parameter is. Numbers count the parameters and results of the primal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamRole {
    /// A parameter of the primal.
    Primal(usize),
    /// The pointer to the shadow of a duplicated parameter.
    Shadow(usize),
    /// The tangent of a parameter.
    Tangent(usize),
    /// The seed of a result.
    Seed(usize),
    /// The address of the workspace.
    Workspace,
    /// How many bytes the workspace has.
    WorkspaceBytes,
    /// The address of the function that makes the workspace longer.
    Grow,
    /// What that function is given.
    GrowContext,
    /// The address of the struct for the results.
    Results,
}

impl ParamRole {
    /// Its name in prototypes.
    pub fn name(self) -> String {
        match self {
            Self::Primal(i) => format!("p{i}"),
            Self::Shadow(i) => format!("shadow{i}"),
            Self::Tangent(i) => format!("tangent{i}"),
            Self::Seed(i) => format!("seed{i}"),
            Self::Workspace => "workspace".to_owned(),
            Self::WorkspaceBytes => "workspace_bytes".to_owned(),
            Self::Grow => "grow".to_owned(),
            Self::GrowContext => "grow_context".to_owned(),
            Self::Results => "results".to_owned(),
        }
    }
}

/// What a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultRole {
    /// A result of the primal.
    Value(usize),
    /// The pointer to the shadow of a result.
    Shadow(usize),
    /// The cotangent of a parameter.
    Cotangent(usize),
    /// The tangent of a result.
    Tangent(usize),
    /// Zero, or one if the run did not fit into the workspace: then floats are NaN.
    Status,
}

impl ResultRole {
    /// Its name in structs of results.
    pub fn name(self) -> String {
        match self {
            Self::Value(i) => format!("value{i}"),
            Self::Shadow(i) => format!("value_shadow{i}"),
            Self::Cotangent(i) => format!("cotangent{i}"),
            Self::Tangent(i) => format!("value_tangent{i}"),
            Self::Status => "status".to_owned(),
        }
    }
}

/// Where results lie in a struct of C's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// The offset of each result, in bytes.
    pub offsets: Vec<u32>,
    /// Bytes in all.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

impl StructLayout {
    /// The layout of these fields.
    pub fn of(fields: impl IntoIterator<Item = Type>) -> Self {
        let (mut at, mut align) = (0_u32, 1);
        let offsets = fields.into_iter().map(|ty| {
            let own = ty.bytes().next_power_of_two();
            align = align.max(own);
            let offset = at.next_multiple_of(own);
            at = offset + ty.bytes();
            offset
        });
        let offsets = offsets.collect();
        Self { offsets, size: at.next_multiple_of(align), align }
    }
}

/// How an embedded derivative is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedSignature {
    /// One for each parameter.
    pub params: Vec<ParamRole>,
    /// One for each result, wherever it is returned.
    pub results: Vec<ResultRole>,
    /// The types of the results.
    pub types: Vec<Type>,
    /// Where results lie, if they are returned in a struct.
    pub layout: Option<StructLayout>,
    /// The same for Cranelift.
    pub clif: Signature,
}

impl DerivedSignature {
    /// Which parameter has this role.
    pub fn param(&self, role: ParamRole) -> Option<usize> {
        self.params.iter().position(|&p| p == role)
    }

    /// Which result has this role.
    pub fn result(&self, role: ResultRole) -> Option<usize> {
        self.results.iter().position(|&r| r == role)
    }

    /// A spec of a derivative of this one, along all that may vary: floats that the first spec
    /// differentiates, seeds and tangents, and all memory that has a shadow, in which the workspace
    /// and a struct of results are. What is to be constant is so after
    /// `spec.params[k] = ParamActivity::Const.into()`. A pointer that is returned beside its shadow
    /// has one again.
    pub fn nested(&self, derivative: Derivative) -> Spec {
        let float = |i| self.param(ParamRole::Tangent(i)).is_some() || self.result(ResultRole::Cotangent(i)).is_some();
        let forward = derivative == Derivative::Tangent;
        let activity = |role: &ParamRole| match *role {
            ParamRole::Primal(i) if !float(i) && self.param(ParamRole::Shadow(i)).is_none() => ParamActivity::Const,
            ParamRole::WorkspaceBytes | ParamRole::Grow | ParamRole::GrowContext => ParamActivity::Const,
            _ if forward => ParamActivity::Dual,
            ParamRole::Primal(i) if float(i) => ParamActivity::Active,
            ParamRole::Tangent(_) | ParamRole::Seed(_) => ParamActivity::Active,
            _ => ParamActivity::Duplicated,
        };
        let returned = |(role, ty): (&ResultRole, &Type)| match *role {
            ResultRole::Shadow(_) => ReturnActivity::Duplicated,
            ResultRole::Value(i) if self.result(ResultRole::Shadow(i)).is_some() => ReturnActivity::Duplicated,
            _ if !ty.lane_type().is_float() => ReturnActivity::Const,
            _ if forward => ReturnActivity::Dual,
            _ => ReturnActivity::Active,
        };
        let params = self.params.iter().map(activity);
        let spec = match derivative {
            Derivative::Gradient => Spec::gradient(params),
            Derivative::Pair => Spec::pair(params),
            Derivative::Tangent => Spec::tangent(params),
        };
        let results = self.results.iter().zip(&self.types).filter(|_| self.layout.is_none());
        spec.results(results.map(returned))
    }

    /// A prototype in C, after the struct of its results if there is one. Names are those of the
    /// roles. More than one result in registers is written as the struct that such a function
    /// returns. C returns one of more than two words in memory, and on Windows any: that is no
    /// prototype of the function then, and a comment says so. Ask for [`Spec::in_struct`].
    pub fn prototype(&self, symbol: &str) -> String {
        Prototype { signature: self, symbol }.to_string()
    }

    fn new(roles: (Vec<ParamRole>, Vec<ResultRole>), primal: &Signature, conv: CallConv, in_struct: bool) -> Self {
        let (mut params, results) = roles;
        let types: Vec<Type> = results.iter().map(|r| type_of_result(*r, primal)).collect();
        // A function that writes its result to memory of the caller's returns nothing beside that.
        let writes = primal.params.iter().any(|p| p.purpose == ArgumentPurpose::StructReturn);
        let in_struct = (in_struct || writes) && !types.is_empty() || !fits_registers(&types, conv);
        let layout = in_struct.then(|| StructLayout::of(types.iter().copied()));
        if in_struct {
            params.push(ParamRole::Results);
        }
        let mut clif = Signature::new(conv);
        clif.params.extend(params.iter().map(|p| param(*p, primal)));
        if !in_struct {
            clif.returns.extend(results.iter().map(|r| match *r {
                ResultRole::Value(i) => primal.returns[i],
                // Conventions that fill registers ask for what C's `int` asks for.
                ResultRole::Status => AbiParam::new(types::I32).sext(),
                role => AbiParam::new(type_of_result(role, primal)),
            }));
        }
        Self { params, results, types, layout, clif }
    }
}

/// A parameter as the primal has it, extension of small integers included.
fn param(role: ParamRole, primal: &Signature) -> AbiParam {
    match role {
        ParamRole::Primal(i) => primal.params[i],
        ParamRole::Tangent(i) => AbiParam::new(primal.params[i].value_type),
        ParamRole::Seed(i) => AbiParam::new(primal.returns[i].value_type),
        _ => AbiParam::new(types::I64),
    }
}

fn type_of_result(role: ResultRole, primal: &Signature) -> Type {
    match role {
        ResultRole::Value(i) | ResultRole::Tangent(i) => primal.returns[i].value_type,
        ResultRole::Cotangent(i) => primal.params[i].value_type,
        ResultRole::Shadow(_) => types::I64,
        ResultRole::Status => types::I32,
    }
}

/// Whether registers hold these results in every convention of this name: two integers and two
/// floats, of Windows one of each.
pub(super) fn fits_registers(types: &[Type], conv: CallConv) -> bool {
    let most = if conv == CallConv::WindowsFastcall { 1 } else { 2 };
    let is_float = |ty: &&Type| ty.is_vector() || ty.is_float();
    let floats = types.iter().filter(is_float).count();
    let ints: u32 = types.iter().filter(|ty| !is_float(ty)).map(|ty| ty.bytes().div_ceil(8)).sum();
    floats <= most && ints as usize <= most
}

fn with_shadows(variant: &Variant, n: usize) -> Vec<ParamRole> {
    let shadows: Vec<usize> = duplicated(variant).collect();
    let behind = |i: usize| shadows.contains(&i).then_some(ParamRole::Shadow(i));
    (0..n).flat_map(|i| [Some(ParamRole::Primal(i)), behind(i)].into_iter().flatten()).collect()
}

fn status(room: Room) -> Option<ResultRole> {
    room.is_given().then_some(ResultRole::Status)
}

/// Results of the primal that are returned, the shadow behind each pointer that has one.
fn values(spec: &Spec) -> impl Iterator<Item = ResultRole> + '_ {
    spec.returns.iter().enumerate().filter(|o| o.1.is_returned()).flat_map(|(i, o)| {
        let shadow = (*o == ReturnActivity::Duplicated).then_some(ResultRole::Shadow(i));
        [Some(ResultRole::Value(i)), shadow].into_iter().flatten()
    })
}

/// What the signatures of a derivation depend on.
pub(super) struct SignatureInputs<'a> {
    pub spec: &'a Spec,
    pub primal: &'a Signature,
    pub variant: &'a Variant,
    pub room: Room,
    pub conv: CallConv,
}

impl SignatureInputs<'_> {
    fn signature(&self, params: Vec<ParamRole>, results: Vec<ResultRole>) -> DerivedSignature {
        DerivedSignature::new((params, results), self.primal, self.conv, self.spec.struct_of_results)
    }

    fn workspace(&self) -> impl Iterator<Item = ParamRole> + use<> {
        let grows = self.spec.growing && self.room == Room::Unknown;
        let given = [ParamRole::Workspace, ParamRole::WorkspaceBytes].into_iter().filter(|_| self.room.is_given());
        let growing = [ParamRole::Grow, ParamRole::GrowContext].into_iter().filter(|_| grows);
        given.chain(growing).collect::<Vec<_>>().into_iter()
    }

    fn seeds(&self) -> impl Iterator<Item = ParamRole> + '_ {
        self.variant.result_shapes(self.primal).map(|r| ParamRole::Seed(r.0))
    }

    fn cotangents(&self) -> impl Iterator<Item = ResultRole> + '_ {
        self.variant.param_shapes(self.primal).map(|p| ResultRole::Cotangent(p.0))
    }

    /// The function of both halves.
    pub(super) fn gradient(&self) -> DerivedSignature {
        let params = with_shadows(self.variant, self.primal.params.len());
        let params = params.into_iter().chain(self.seeds()).chain(self.workspace()).collect();
        let results = values(self.spec).chain(self.cotangents()).chain(status(self.room)).collect();
        self.signature(params, results)
    }

    /// The forward pass of a pair.
    pub(super) fn forward(&self) -> DerivedSignature {
        let params = with_shadows(self.variant, self.primal.params.len());
        let params = params.into_iter().chain(self.workspace()).collect();
        self.signature(params, values(self.spec).chain(status(self.room)).collect())
    }

    /// The pullback of a pair. It knows how long the workspace is.
    pub(super) fn pullback(&self) -> DerivedSignature {
        let workspace = self.workspace().filter(|p| *p == ParamRole::Workspace);
        let params = self.seeds().chain(workspace).collect();
        self.signature(params, self.cotangents().chain(status(self.room)).collect())
    }

    /// What frees the blocks of a pair's record.
    pub(super) fn release(&self) -> DerivedSignature {
        self.signature(vec![ParamRole::Workspace], vec![])
    }

    /// The function of forward mode.
    pub(super) fn tangent(&self) -> DerivedSignature {
        let floats: Vec<usize> = self.variant.param_shapes(self.primal).map(|p| p.0).collect();
        let behind = |p: ParamRole| match p {
            ParamRole::Primal(i) if floats.contains(&i) => Some(ParamRole::Tangent(i)),
            _ => None,
        };
        let params = with_shadows(self.variant, self.primal.params.len()).into_iter();
        let params = params.flat_map(|p| [Some(p), behind(p)].into_iter().flatten());
        let params = params.chain(self.workspace()).collect();
        let tangents = self.variant.result_shapes(self.primal).map(|r| ResultRole::Tangent(r.0));
        self.signature(params, values(self.spec).chain(tangents).chain(status(self.room)).collect())
    }
}

struct Prototype<'a> {
    signature: &'a DerivedSignature,
    symbol: &'a str,
}

impl fmt::Display for Prototype<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signature: s, symbol } = *self;
        let fields: Vec<(String, String)> =
            s.results.iter().zip(&s.types).map(|(r, ty)| (c_type_of_result(*r, *ty), r.name())).collect();
        let many = s.layout.is_some() || fields.len() > 1;
        let in_registers = if s.clif.call_conv == CallConv::WindowsFastcall { 8 } else { 16 };
        if s.layout.is_none() && many && StructLayout::of(s.types.iter().copied()).size > in_registers {
            writeln!(f, "/* C returns a struct of this size in memory, this function in registers: */")?;
            writeln!(f, "/* it cannot be called from C. Ask for the results in a struct (in_struct). */")?;
        }
        for (role, abi) in s.params.iter().zip(&s.clif.params) {
            if let ArgumentPurpose::StructArgument(bytes) = abi.purpose {
                let words = bytes.div_ceil(8);
                if words <= 2 {
                    writeln!(f, "/* C passes a struct of this size in registers: it cannot be called from C. */")?;
                }
                writeln!(f, "struct {symbol}_{} {{ int64_t words[{words}]; }};", role.name())?;
            }
        }
        if many {
            writeln!(f, "struct {symbol}_results {{")?;
            fields.iter().try_for_each(|(ty, name)| writeln!(f, "    {ty} {name};"))?;
            writeln!(f, "}};")?;
        }
        match (&s.layout, fields.first()) {
            (None, Some((ty, _))) if !many => write!(f, "{ty} ")?,
            (None, Some(_)) => write!(f, "struct {symbol}_results ")?,
            _ => write!(f, "void ")?,
        }
        let params: Vec<String> =
            s.params.iter().zip(&s.clif.params).map(|(p, abi)| c_param(*p, abi, symbol)).collect();
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        write!(f, "{symbol}({params});")
    }
}

fn c_param(role: ParamRole, abi: &AbiParam, symbol: &str) -> String {
    if role == ParamRole::Grow {
        return format!("int64_t (*{})(void *context, int64_t bytes)", role.name());
    }
    let ty = match role {
        ParamRole::Shadow(_) | ParamRole::Workspace | ParamRole::GrowContext => "void *".to_owned(),
        ParamRole::Results => format!("struct {symbol}_results *"),
        _ if matches!(abi.purpose, ArgumentPurpose::StructArgument(_)) => format!("struct {symbol}_{} ", role.name()),
        _ => format!("{} ", c_value(abi.value_type)),
    };
    format!("{ty}{}", role.name())
}

fn c_type_of_result(role: ResultRole, ty: Type) -> String {
    match role {
        ResultRole::Shadow(_) => "void *".to_owned(),
        _ => c_value(ty),
    }
}

/// A type of C that needs no declaration: vectors as GCC and clang write them.
fn c_value(ty: Type) -> String {
    if ty.is_vector() {
        return format!("{} __attribute__((vector_size({})))", c_type(ty.lane_type()), ty.bytes());
    }
    c_type(ty)
}

/// A type of C with the same place in the convention. A pointer is an integer of CLIF.
pub fn c_type(ty: Type) -> String {
    match ty {
        types::F64 => "double".to_owned(),
        types::F32 => "float".to_owned(),
        types::F16 => "_Float16".to_owned(),
        types::F128 => "__float128".to_owned(),
        types::I128 => "__int128".to_owned(),
        _ if ty.is_int() => format!("int{}_t", ty.bits()),
        _ => format!("{}x{}_t", c_type(ty.lane_type()).trim_end_matches("_t"), ty.lane_count()),
    }
}
