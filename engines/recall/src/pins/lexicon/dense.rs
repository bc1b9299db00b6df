//! Chinese and Japanese: phrases, looked for in the sentence as it is, since there are no spaces between words. They are
//! separated by `|`.

/// The phrases of a list.
pub(in crate::pins) fn phrases(list: &str) -> impl Iterator<Item = &str> {
    list.split('|')
}

/// One of these phrases is in it.
pub(in crate::pins) fn has(text: &str, list: &str) -> bool {
    phrases(list).any(|phrase| text.contains(phrase))
}

/// Asks something.
pub(in crate::pins) const ASKS: &str =
    "？|?|吗|呢|为什么|怎么|是不是|要不要|是否|ですか|ますか|でしょうか|のか|なぜ|どうして";
/// A question that is an order.
pub(in crate::pins) const POLITE_ASKS: &str = "能不能|可以不|可以别|可不可以|可以请你|能否|可否|もらえますか|いただけますか|くれますか|くれませんか|可不可以|可以不|请不要|\
     ないでもらえ|やめてもらえ|してもらえ|していただけ|ないでくれ|てくれる？|てくれない？|てもらえる？|\
     てもらえない？";
/// Somebody else says so.
pub(in crate::pins) const REPORTS: &str = "他说|她说|说过|据说|听说|上说|里说|中说|写着|说要|と言って|と言った|と言われ|によると|だそうです|らしい|\
     と書いて|と書かれ|老板说|妈妈说|医生说|老师说|经理说|と書いてある|と主張|写道|说：|表示：|问：";
/// For this time only.
pub(in crate::pins) const ONCE: &str = "这次|这一次|今天|暂时|目前|先别|先不|今回|とりあえず|一旦|今日|今のところ|这道题|这个问题|这封|这段|\
     この質問|この文|この問題|次の|以下の";
/// Tells of a fault.
pub(in crate::pins) const FAULTS: &str =
    "但是|可是|报错|出错|失败|崩溃|奇怪|のに|エラー|失敗|落ち|おかしい|ようです|みたい";
/// For good by themselves.
pub(in crate::pins) const STANDING: &str = "从现在起|从现在开始|从今往后|从今以后|今后|以后|往后|务必|一律|默认|任何时候|无论如何|所有回答|每次回答|\
     除非我|长期|今後|これから|以後|デフォルトで|原則|例外なく|いかなる場合|どんな場合|どんな時も|\
     指示するまで|言わない限り";
/// For good in an order, else narration.
pub(in crate::pins) const ALWAYS: &str = "始终|一直|总是|永远|每次|每当|必须|一定要|常に|必ず|いつも|毎回|つねに";
/// Never.
pub(in crate::pins) const NEVER: &str = "永远不要|永远别|绝不|绝对不要|绝不要|千万不要|千万别|不要再|别再|不许|禁止|切勿|严禁|不得|再也不要|\
     绝对不能|絶対に|決して|二度と|しないこと|厳禁|禁じ";
/// Forbids something.
pub(in crate::pins) const DONT: &str = "不要|请勿|别|ないでください|しないで|やめてください|なさらないで|不需要|别用|不要用|请别|禁止使用|な。|\
     は不要|はいらない|はやめて|は使わない|は禁止|しないでください|使うな|使わないで|避けてください|避けて|控えてください|控えて";
/// Orders something.
pub(in crate::pins) const ORDERS: &str = "请|你要|你必须|你应该|您要|我希望你|我要你|我想让你|我要求|麻烦你|记住|ください|下さい|お願い|ほしい|\
     欲しい|ように|すること|しろ|せよ|頼む|頼みます";
/// Tells of a taste.
pub(in crate::pins) const TASTES: &str = "我喜欢|我更喜欢|我比较喜欢|我偏好|我讨厌|我不喜欢|我受不了|我宁愿|我习惯用|の方が好き|のほうが好き|\
     が好きです|が嫌い|が苦手|を好みます|好きではない|好きじゃない|我爱|好きです|苦手です|好きではありません|好きじゃありません|嫌いです";
/// Tells who the speaker is.
pub(in crate::pins) const ME: &str = "叫我|称呼我|我的名字是|我叫|我的时区|过敏|我是素食|我吃素|我不吃|と呼んで|私の名前は|アレルギー|\
     ベジタリアン|私のタイムゾーン|食べられません|我是纯素|我对|我住在|ビーガンです|左利きです|私は左利き|\
     に住んでいます";
/// Still to be done.
pub(in crate::pins) const TASKS: &str =
    "提醒我|别忘了|不要忘了|不要忘记|别忘记|待办|还没做|忘れずに|リマインド|忘れないで|思い出させて";
/// Has been done.
pub(in crate::pins) const DONE: &str =
    "已经完成|完成了|做完了|搞定了|已完成|办好了|完了しました|終わりました|済みました|済んだ|終わった";
/// Takes something back.
pub(in crate::pins) const REVOKES: &str = "忘掉我说|忘记我说|忘掉我之前|不用再|不需要再|不必再|作废|收回|取消之前|取消那条|规则取消|もういい|\
     しなくていい|しなくて結構|撤回|取り消し|取り消します|忘れてください|忘れていい";
/// Speaks of rules.
pub(in crate::pins) const RULES: &str = "规则|规矩|约定|要求|偏好|注意事项|原则|ルール|決まり|方針|守って|お願い|约束";
/// What somebody else wrote.
pub(in crate::pins) const PASTES: &str = "邮件|日志|内容如下|原文|报错信息|写道|文档|メール|ログ|引用|以下の文章|本文|エラー|消息|来信|短信|信件|メッセージ|手紙|連絡";
/// A subject that narrates.
pub(in crate::pins) const SUBJECTS: &str = "它|他|她|这个|那个|这|那|我们的|彼|彼女|これ|それ|あれ|この|その|あの";
/// A fact that is to be kept in mind.
pub(in crate::pins) const KEEPS: &str = "记住|记得我|请记得|牢记|别忘了我|不要忘了我|不要忘记我|别忘记我|不要忘记：|别忘了：|请别忘记我|\
     请不要忘记我|记下来：|记一下：|覚えておいて|覚えといて|覚えていて|忘れないで：|ことを忘れないで|\
     ことを忘れずに|だと忘れないで|メモしておいて|念頭に置いて|頭に入れて";
/// Asks to be told what was kept.
pub(in crate::pins) const RECALLS: &str = "你记住了吗|还记得|记不记得|覚えていますか|覚えてる|记得吗";
/// Asks for assent behind an order, and makes no question of it.
pub(in crate::pins) const ASSENTS: &str = "好吗|好不好|行吗|可以吗|好吧|明白吗|懂吗|知道吗|行不行|听到了吗|好么|拜托|いい|いいね|いいですね|\
     いいですか|ね|よろしいですか|わかった|わかりましたか|お願い|頼むね|頼むよ";
/// Languages to answer in.
pub(in crate::pins) const LANGUAGES: &str = "中文|英文|英语|日语|日文|法语|法文|德语|德文|西班牙语|韩语|俄语|普通话|粤语|简体|繁体|日本語|英語|\
     中国語|フランス語|ドイツ語|スペイン語|韓国語|敬語|タメ口|関西弁";
/// Verbs of answering.
pub(in crate::pins) const ANSWERS: &str =
    "回答|回复|答复|跟我说|和我说|跟我聊|交流|对话|答えて|返事|返信|回答して|話して|書いて|でお願い|説明して";
/// How the assistant is to be.
pub(in crate::pins) const MANNERS: &str = "简短|简洁|简明|直接一点|少说废话|表情符号|emoji|客套话|短く|簡潔|手短|率直|絵文字|前置き|お世辞|敬語|\
     丁寧";
/// What may stop: a habit.
pub(in crate::pins) const QUITS: &str = "别再|不要再|停止使用|不再|のをやめて|をやめて|はやめて|のはやめ|を控えて";
/// Says what is to be done with a text.
pub(in crate::pins) const TREATS: &str = "总结|概括|归纳|翻译|译成|翻成|译为|润色|校对|改写|改成|解释|分析|修改|纠正|改错|缩写|精简|提炼|评价|\
     点评|摘要|要約|翻訳|訳して|訳すと|校正|添削|言い換え|書き換え|書き直し|直して|推敲|まとめて|分析して|\
     評価して|分類して|説明して|解説して|检查|批改|确认一下|確認して|チェックして|採点|缩短|扩写|短くして|長くして";
/// Asks about a text.
pub(in crate::pins) const ABOUT: &str = "什么意思|怎么说|怎么翻|怎么看|对吗|对不对|通顺吗|有语病|谁说的|是谁写|怎么样|どういう意味|意味は|\
     何という意味|どう思|正しいですか|正しい|自然ですか|誰の言葉|何語";
/// Hands words on to somebody.
pub(in crate::pins) const SAYS: &str = "告诉他|告诉她|告诉老|告诉小|告诉同|告诉客|告诉大|转告|写给|发给|回复他|回复她|回复这|回复客|重复|\
     跟着我说|跟我念|に伝えて|と伝えて|に送って|に言って|に返信して|繰り返して|復唱|彼に|彼女に";
/// Points at a text.
pub(in crate::pins) const SHOWN: &str =
    "这段|这句|这篇|这封|这个|这些|这首|这条|下面|以下|如下|一下|これ|この|次の|下の|下記";
/// The text before.
pub(in crate::pins) const ABOVE: &str = "上面|以上|上述|上文|前面的|上の|上記|前の文";
/// A name for a text by itself.
pub(in crate::pins) const LABELS: &str = "原文|文本|正文|全文|引文|歌词|标题|邮件|短信|留言|评论|台词|例如|比如|口号|谚语|诗|例子|客户|用户|本文|\
     歌詞|題名|タイトル|メール|例えば|例|引用|セリフ|スローガン|ことわざ|標語|感想|レビュー|看板";
/// Tells that what stands before it is a name of something.
pub(in crate::pins) const TITLES: &str = "是一首|是一部|是一本|是一句|是一个|是首歌|是本书|是部电影|是他的|是她的|是我的座右铭|是我最喜欢|这首歌|\
     这本书|这部电影|这句话|的歌词|という曲|という本|という映画|という歌|という言葉|は名曲|は曲|は映画|\
     は本で|は歌|が好きな言葉|って曲|って映画|って本|是一种|是件";
