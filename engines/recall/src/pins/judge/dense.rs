//! Chinese and Japanese: no spaces between words, so phrases are looked for in the sentence as it is.

use super::Verdict;
use crate::pins::Kind;
use crate::pins::sentences::Sentence;
use crate::pins::tokens;

/// The sentence is written in one of these scripts: at least a third of its letters.
pub(super) fn is_dense(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let (mut dense, mut all) = (0, 0);
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        all += 1;
        dense += usize::from(tokens::is_dense(c));
    }
    dense > 0 && dense * 3 >= all
}

const ASKS: &[&str] = &[
    "？",
    "?",
    "吗",
    "呢",
    "为什么",
    "怎么",
    "是不是",
    "要不要",
    "是否",
    "ですか",
    "ますか",
    "でしょうか",
    "のか",
    "なぜ",
    "どうして",
];
const POLITE_ASKS: &[&str] =
    &["能不能", "可以请你", "能否", "可否", "もらえますか", "いただけますか", "くれますか", "くれませんか"];
const REPORTS: &[&str] = &[
    "他说",
    "她说",
    "说过",
    "据说",
    "听说",
    "上说",
    "里说",
    "中说",
    "写着",
    "说要",
    "と言って",
    "と言った",
    "と言われ",
    "によると",
    "だそうです",
    "らしい",
    "と書いて",
    "と書かれ",
];
const ONCE: &[&str] =
    &["这次", "这一次", "今天", "暂时", "目前", "先别", "先不", "今回", "とりあえず", "一旦", "今日", "今のところ"];
const FAULTS: &[&str] = &[
    "但是",
    "可是",
    "报错",
    "出错",
    "失败",
    "崩溃",
    "奇怪",
    "のに",
    "エラー",
    "失敗",
    "落ち",
    "おかしい",
    "ようです",
    "みたい",
];
/// For good by themselves.
const STANDING: &[&str] = &[
    "从现在起",
    "从现在开始",
    "从今往后",
    "从今以后",
    "今后",
    "以后",
    "往后",
    "务必",
    "一律",
    "默认",
    "任何时候",
    "无论如何",
    "所有回答",
    "每次回答",
    "除非我",
    "长期",
    "今後",
    "これから",
    "以後",
    "デフォルトで",
    "原則",
    "例外なく",
    "いかなる場合",
    "どんな場合",
    "どんな時も",
    "指示するまで",
    "言わない限り",
];
/// For good in an order, else narration.
const ALWAYS: &[&str] =
    &["始终", "一直", "总是", "永远", "每次", "每当", "必须", "一定要", "常に", "必ず", "いつも", "毎回", "つねに"];
const NEVER: &[&str] = &[
    "永远不要",
    "永远别",
    "绝不",
    "绝对不要",
    "绝不要",
    "千万不要",
    "千万别",
    "不要再",
    "别再",
    "不许",
    "禁止",
    "切勿",
    "严禁",
    "不得",
    "再也不要",
    "绝对不能",
    "絶対に",
    "決して",
    "二度と",
    "しないこと",
    "厳禁",
    "禁じ",
];
const DONT: &[&str] = &["不要", "请勿", "别", "ないでください", "しないで", "やめてください", "なさらないで"];
const ORDERS: &[&str] = &[
    "请",
    "你要",
    "你必须",
    "你应该",
    "您要",
    "我希望你",
    "我要你",
    "我想让你",
    "我要求",
    "麻烦你",
    "记住",
    "ください",
    "下さい",
    "お願い",
    "ほしい",
    "欲しい",
    "ように",
    "すること",
    "しろ",
    "せよ",
    "頼む",
    "頼みます",
];
const TASTES: &[&str] = &[
    "我喜欢",
    "我更喜欢",
    "我比较喜欢",
    "我偏好",
    "我讨厌",
    "我不喜欢",
    "我受不了",
    "我宁愿",
    "我习惯用",
    "の方が好き",
    "のほうが好き",
    "が好きです",
    "が嫌い",
    "が苦手",
    "を好みます",
    "好きではない",
    "好きじゃない",
];
const ME: &[&str] = &[
    "叫我",
    "称呼我",
    "我的名字是",
    "我叫",
    "我的时区",
    "过敏",
    "我是素食",
    "我吃素",
    "我不吃",
    "と呼んで",
    "私の名前は",
    "アレルギー",
    "ベジタリアン",
    "私のタイムゾーン",
    "食べられません",
];
const TASKS: &[&str] = &[
    "提醒我",
    "别忘了",
    "不要忘了",
    "不要忘记",
    "别忘记",
    "待办",
    "还没做",
    "忘れずに",
    "リマインド",
    "忘れないで",
    "思い出させて",
];
const DONE: &[&str] = &[
    "已经完成",
    "完成了",
    "做完了",
    "搞定了",
    "已完成",
    "办好了",
    "完了しました",
    "終わりました",
    "済みました",
    "済んだ",
    "終わった",
];
const REVOKES: &[&str] = &[
    "忘掉我说",
    "忘记我说",
    "忘掉我之前",
    "不用再",
    "不需要再",
    "不必再",
    "作废",
    "收回",
    "取消之前",
    "取消那条",
    "规则取消",
    "もういい",
    "しなくていい",
    "しなくて結構",
    "撤回",
    "取り消し",
    "取り消します",
    "忘れてください",
    "忘れていい",
];
const RULES: &[&str] = &[
    "规则",
    "规矩",
    "约定",
    "要求",
    "偏好",
    "注意事项",
    "原则",
    "ルール",
    "決まり",
    "方針",
    "守って",
    "お願い",
    "约束",
];
const PASTES: &[&str] = &[
    "邮件",
    "日志",
    "内容如下",
    "原文",
    "报错信息",
    "写道",
    "文档",
    "メール",
    "ログ",
    "引用",
    "以下の文章",
    "本文",
    "エラー",
];
/// A subject that narrates.
const SUBJECTS: &[&str] = &[
    "它",
    "他",
    "她",
    "这个",
    "那个",
    "这",
    "那",
    "我们的",
    "彼",
    "彼女",
    "これ",
    "それ",
    "あれ",
    "この",
    "その",
    "あの",
];

/// The verdict on a sentence.
pub(super) fn judge(sentence: &Sentence) -> Verdict {
    let text = sentence.masked.as_str();
    let has = |list: &[&str]| list.iter().any(|phrase| text.contains(phrase));
    if sentence.announces {
        return match (has(PASTES), has(RULES) || has(STANDING) || has(ALWAYS)) {
            (true, _) => Verdict::Pasted,
            (false, true) => Verdict::Rules,
            (false, false) => Verdict::Nothing,
        };
    }
    let asks = has(ASKS) && !has(POLITE_ASKS);
    if sentence.ruled {
        return if asks { Verdict::Nothing } else { Verdict::Pin(Kind::Instruction, 2) };
    }
    if has(REVOKES) && !asks {
        return Verdict::TakenBack(false);
    }
    let head = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let narrates = SUBJECTS.iter().any(|subject| head.starts_with(subject));
    if asks || has(REPORTS) {
        return Verdict::Nothing;
    }
    if has(TASKS) && !has(ALWAYS) && !has(STANDING) {
        return Verdict::Pin(Kind::Task, 2);
    }
    let ordered = has(ORDERS) || has(POLITE_ASKS);
    if has(NEVER) && !has(FAULTS) && (!narrates || ordered) {
        return Verdict::Pin(Kind::Instruction, 3);
    }
    if has(STANDING) && !has(FAULTS) && (ordered || has(DONT) || (!narrates && !head.starts_with('我'))) {
        return Verdict::Pin(Kind::Instruction, 3);
    }
    if has(ALWAYS) && !narrates && !has(FAULTS) {
        let opens = ALWAYS.iter().any(|always| head.starts_with(always));
        if ordered || opens {
            return Verdict::Pin(Kind::Instruction, 3);
        }
    }
    if (has(TASTES) || has(ME)) && !narrates && !has(ONCE) {
        return Verdict::Pin(Kind::Preference, 2);
    }
    let forbids = DONT
        .iter()
        .any(|dont| head.starts_with(dont) || text.ends_with(dont) || head.starts_with(&format!("请{dont}")));
    if forbids && !has(ONCE) && !has(FAULTS) {
        return Verdict::Pin(Kind::Instruction, 1);
    }
    if has(DONE) { Verdict::Done } else { Verdict::Nothing }
}
